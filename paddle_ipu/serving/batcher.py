"""The queue of requests, and the threads that make batches of it and answer them.

Of two threads one computes a batch while the other answers the batch before. A batch is made when
the model is free, of the requests that wait then.
"""

from __future__ import annotations

import atexit
import copy
import logging
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from time import monotonic

import numpy as np

from paddle_ipu.errors import (
    FeedError,
    QueueFullError,
    RequestTimeoutError,
    ServingError,
    UnknownOutputError,
)
from paddle_ipu.serving.model import Model
from paddle_ipu.serving.request import Array, Request, rows_of
from paddle_ipu.serving.statistics import Recorder, Statistics

Batch = list[tuple[Request, int, int]]
"""Of each request in it: the request, its first row in the batch, and how many."""

Outcome = tuple[Batch, Mapping[str, Array], BaseException | None]
"""A batch with the model's outputs, or with its error."""

_LOG = logging.getLogger("paddle_ipu")

_WORKERS = 2

_AT_EXIT = 10.0
"""Seconds that the end of the process waits for a batch."""


class Batcher:
    """The state that a runner's threads share; it lives until their last batch is answered.

    Args:
        model: called by one thread at a time.
        timeout: seconds that a request waits for others to fill its batch.
        max_waiting: rows that may wait.
        shared: outputs that do not depend on the rows, given whole to every request.
        isolate: compute a batch that fails once more, request by request.
    """

    def __init__(
        self,
        model: Model,
        timeout: float,
        max_waiting: int,
        shared: Collection[str],
        isolate: bool,
    ) -> None:
        self._model = model
        self._capacity = model.micro_batch
        self._timeout = timeout
        self._max_waiting = max_waiting
        self._shared = frozenset(shared)
        self._isolate = isolate
        self._queue: deque[Request] = deque()
        self._waiting = 0
        self._flush_by = math.inf
        # A finaliser may run at any line, in a thread that holds the lock already.
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._space = threading.Condition(self._lock)
        self._model_lock = threading.Lock()
        self._idle = False
        self._blocked = 0
        self._closing = self._abandoning = False
        self._threads: list[threading.Thread] = []
        self._process = os.getpid()
        self._recorder = Recorder()

    # -- the caller's side ---------------------------------------------------------------------

    def put(self, request: Request, *, block: bool) -> None:
        """Puts a request into the queue.

        Raises:
            QueueFullError: too many rows wait, and the caller does not.
            RequestTimeoutError: there was no room before its deadline.
            ServingError: the runner was shut down, or belongs to another process.
        """
        if self._process != os.getpid():
            raise ServingError(
                f"this BatchingRunner belongs to process {self._process}, and threads do not come "
                f"along into a fork (process {os.getpid()}). Make a runner in each process."
            )
        rows = request.rows
        with self._lock:
            if self._closing:
                self._check_open()
            # A request of more rows than may wait is queued when no other waits.
            while self._waiting and self._waiting + rows > self._max_waiting:
                self._wait_for_space(request, block)
            if len(self._threads) < _WORKERS:
                self._start()
            first = request.flush_by < self._flush_by
            # Ctrl-C may come after every call. So a thread is notified first, perhaps for nothing,
            # with notify_all: an interrupted wait stays in the list of waiters. Then the state
            # changes without a call, except for the last.
            if self._idle and (first or self._waiting + rows >= self._capacity):
                self._arrived.notify_all()
                self._idle = False
            if first:
                self._flush_by = request.flush_by
            self._recorder.requests += 1
            self._waiting += rows
            self._queue.append(request)

    def _wait_for_space(self, request: Request, block: bool) -> None:
        left = request.deadline - monotonic()
        if not block:
            self._recorder.refused += 1
            raise QueueFullError(
                f"{self._waiting} rows wait for the model, and {self._max_waiting} may: a request "
                f"of {request.rows} has no room. Try again later, or raise max_waiting."
            )
        if left <= 0:
            self._recorder.refused += 1
            raise RequestTimeoutError(
                f"the request found no room in its time: {self._waiting} rows wait for the model, "
                f"and {self._max_waiting} may. Try again later, give it more time, or raise "
                "max_waiting."
            )
        self._blocked += 1
        try:
            self._space.wait(min(left, threading.TIMEOUT_MAX))
        finally:
            self._blocked -= 1
        self._check_open()

    def _check_open(self) -> None:
        if self._closing:
            raise ServingError(
                "the BatchingRunner was shut down and takes no more requests. Make another one."
            )

    def statistics(self) -> Statistics:
        """The counts as they are now."""
        with self._lock:
            return self._recorder.snapshot(self._waiting)

    @property
    def is_open(self) -> bool:
        """True until `close` or `abandon`."""
        return not self._closing

    def _start(self) -> None:
        _running.add(self)
        _end_all_at_exit()
        while (number := len(self._threads)) < _WORKERS:
            thread = threading.Thread(
                target=self._work, name=f"paddle_ipu serving {number}", daemon=True
            )
            try:
                thread.start()
            finally:
                # Ctrl-C may come after it has started.
                if thread.ident is not None:
                    self._threads.append(thread)

    def abandon(self) -> None:
        """Ends the threads after the batch that runs; requests that wait get an error.

        Returns at once. It may be called anywhere, from a finaliser too.
        """
        self._closing = self._abandoning = True
        if self._process != os.getpid():
            # A fork has no copy of the threads, and one of them may have held the lock.
            return
        with self._lock:
            self._arrived.notify_all()
            self._space.notify_all()

    def close(self, drain: bool, timeout: float | None) -> bool:
        """Takes no more requests, and ends the threads.

        Args:
            drain: answer what waits; else it gets an error.
            timeout: seconds, after which what waits is abandoned; None for no limit.

        Returns:
            True where no thread is left.
        """
        until = math.inf if timeout is None else monotonic() + timeout
        if self._process != os.getpid():
            self.abandon()
            return True
        with self._lock:
            self._closing = True
            self._arrived.notify_all()
            self._space.notify_all()
        if not drain:
            self.abandon()
        ended = self._join(until)
        if not ended:
            self.abandon()
        return ended

    def _join(self, until: float) -> bool:
        for thread in self._threads:
            # An answer's callback may close its runner.
            if thread is not threading.current_thread():
                left = until - monotonic()
                thread.join(min(max(0.0, left), threading.TIMEOUT_MAX))
        return not any(t.is_alive() for t in self._threads)

    # -- the threads' side ---------------------------------------------------------------------

    def _work(self) -> None:
        is_last = False
        while not is_last:
            with self._model_lock:
                batch, late = self._next_batch()
                outcomes = self._outcomes(batch) if batch else []
                is_last = not batch and self._closing
            # Does not keep answered requests while it waits for the next batch.
            del batch
            while late:
                _finish(*late.pop())
            while outcomes:
                self._settle(*outcomes.pop())

    def _settle(
        self, batch: Batch, outputs: Mapping[str, Array], error: BaseException | None
    ) -> None:
        if error is None:
            try:
                self._answer(batch, outputs)
            # For instance no memory for copies. No request may wait for ever.
            except BaseException as raised:
                self._fail((request for request, _, _ in batch), raised)
        else:
            self._fail((request for request, _, _ in batch), error)

    def _outcomes(self, batch: Batch) -> list[Outcome]:
        """Computes a batch; where that fails and errors are isolated, its requests one by one.

        A FeedError is isolated in any case.
        """
        whole = self._outcome(batch)
        isolated = self._isolate or isinstance(whole[2], FeedError)
        if whole[2] is None or not isolated or len(batch) == 1:
            return [whole]
        with self._lock:
            self._recorder.batches += len(batch)
            self._recorder.padding += len(batch) * self._capacity
        return [self._outcome([part]) for part in batch]

    def _outcome(self, batch: Batch) -> Outcome:
        try:
            return batch, self._compute(batch), None
        # Whatever the model raises goes to the requests.
        except BaseException as error:
            return batch, {}, error

    def _next_batch(self) -> tuple[Batch, list[tuple[Request, BaseException]]]:
        """Waits until the micro-batch is full or a request has waited long enough.

        Returns:
            The batch, and requests that are too late for it; both are empty when the thread has to
            end.
        """
        with self._lock:
            while not self._abandoning:
                if self._queue:
                    left = self._flush_by - monotonic()
                    if self._waiting >= self._capacity or self._closing or left <= 0:
                        batch, late = self._make_batch()
                        if batch or late:
                            return batch, late
                        continue
                    self._wait(left)
                elif self._closing:
                    return [], []
                else:
                    self._wait(math.inf)
            rest: list[tuple[Request, BaseException]] = []
            for request in self._queue:
                if request.ended:
                    continue
                self._recorder.cancelled += 1
                if (request.batched or request.begin()) and self._is_first(request):
                    rest.append((request, _abandoned()))
            self._queue.clear()
            self._waiting = 0
            return [], rest

    def _wait(self, seconds: float) -> None:
        """Waits for requests; holds the lock before and after."""
        self._idle = True
        self._arrived.wait(min(seconds, threading.TIMEOUT_MAX))
        self._idle = False

    def _make_batch(self) -> tuple[Batch, list[tuple[Request, BaseException]]]:
        batch: Batch = []
        late: list[tuple[Request, BaseException]] = []
        queue, space, now = self._queue, self._capacity, monotonic()
        while queue and space:
            request = queue[0]
            if request.ended:
                queue.popleft()
                self._waiting -= request.rows - request.batched
                continue
            if not request.batched:
                if not request.begin():
                    self._recorder.cancelled += 1
                    queue.popleft()
                    self._waiting -= request.rows
                    continue
                if now > request.deadline:
                    self._recorder.timed_out += 1
                    queue.popleft()
                    self._waiting -= request.rows
                    late.append((request, _too_late(request, now)))
                    continue
            start = request.batched
            rows = min(space, request.rows - start)
            batch.append((request, start, rows))
            request.batched += rows
            space -= rows
            self._waiting -= rows
            if request.batched == request.rows:
                queue.popleft()
        self._flush_by = min((request.flush_by for request in queue), default=math.inf)
        if self._blocked:
            self._space.notify_all()
        if batch:
            self._recorder.batches += 1
            self._recorder.rows += self._capacity - space
            self._recorder.padding += space
        return batch, late

    def _compute(self, batch: Batch) -> Mapping[str, Array]:
        inputs = {}
        feeds = [request.arrays for request, _, _ in batch]
        cut = [n for n, (request, _, rows) in enumerate(batch) if rows != request.rows]
        missing = self._capacity - sum(rows for _, _, rows in batch)
        for spec in self._model.inputs:
            name = spec.name
            parts = [feed[name] for feed in feeds]
            for n in cut:
                _, start, rows = batch[n]
                parts[n] = parts[n][start : start + rows]
            if missing:
                # Repeats a row: zeros may be no valid input, or make a NaN.
                last = parts[-1][-1:]
                parts.append(np.broadcast_to(last, (missing, *last.shape[1:])))
            if len(parts) == 1:
                inputs[name] = np.ascontiguousarray(parts[0])
            else:
                whole = np.empty((self._capacity, *spec.shape), parts[0].dtype)
                inputs[name] = np.concatenate(parts, out=whole)
        outputs = {name: np.asarray(array) for name, array in self._model(inputs).items()}
        for name, array in outputs.items():
            if name not in self._shared and array.shape[:1] != (self._capacity,):
                raise ServingError(no_rows(name, array.shape, self._capacity))
        return outputs

    def _answer(self, batch: Batch, outputs: Mapping[str, Array]) -> None:
        """Gives each request of a batch its own rows."""
        ready: list[Request] = []
        end = 0
        for request, start, rows in batch:
            offset, end = end, end + rows
            names = () if request.outputs is None else request.outputs
            unknown = next((name for name in names if name not in outputs), None)
            if unknown is not None:
                self._fail([request], UnknownOutputError(_no_output(unknown, outputs)))
                continue
            part = rows_of(outputs, request.outputs, offset, rows, self._shared)
            # Both threads may have batches of one request.
            with self._lock:
                if request.keep(start, rows, part, self._shared):
                    ready.append(request)
        now = monotonic()
        with self._lock:
            ready = [request for request in ready if not request.ended]
            for request in ready:
                request.ended = True
            self._recorder.answer([now - request.arrived for request in ready])
        for request in ready:
            _finish(request, None)

    def _fail(self, requests: Iterable[Request], error: BaseException) -> None:
        """Gives requests an error, except those that have ended."""
        failed = [request for request in requests if self._is_first(request)]
        with self._lock:
            self._recorder.failed += len(failed)
        for request in failed:
            _finish(request, _own(error))

    def _is_first(self, request: Request) -> bool:
        """Whether this thread ends the request; both threads may have batches of it."""
        with self._lock:
            ended, request.ended = request.ended, True
        return not ended


_running: weakref.WeakSet[Batcher] = weakref.WeakSet()


@cache
def _end_all_at_exit() -> None:
    atexit.register(_end_all)


def _end_all() -> None:
    """Ends all threads before Python clears its modules, which a model still uses."""
    for batcher in list(_running):
        batcher.close(drain=False, timeout=_AT_EXIT)


def _finish(request: Request, error: BaseException | None) -> None:
    """Ends a request; what a callback of its Future raises is logged, for others wait."""
    try:
        request.finish(error)
    except BaseException:
        _LOG.exception(
            "BatchingRunner: the Future of a request, or a callback of it, did not take its end. "
            "Leave its state to the runner, and have no callback end the thread."
        )


def no_rows(name: str, shape: tuple[int, ...], micro_batch: int) -> str:
    """The message about an output whose first axis is not that of the rows."""
    return (
        f"output {name!r} has shape {list(shape)}, which does not begin with the "
        f"{micro_batch} rows of the micro-batch, so nobody can tell which part of it belongs "
        "to which request. Leave it out, keep the rows apart in it, or name it in "
        "shared_outputs, where it is the same whatever the rows are."
    )


def _no_output(name: str, outputs: Collection[str]) -> str:
    return f"output {name!r} is unknown: the model gave {', '.join(map(repr, outputs))}."


def _too_late(request: Request, now: float) -> RequestTimeoutError:
    return RequestTimeoutError(
        f"the request's time of {request.deadline - request.arrived:.3g} s was over before its "
        f"turn came, {now - request.arrived:.3g} s after it arrived. Give it more time, or send "
        "fewer at once."
    )


def _abandoned() -> ServingError:
    return ServingError("the BatchingRunner was shut down before the request's turn came.")


def _own(error: BaseException) -> BaseException:
    """A copy of an error: each thread that raises it writes its traceback to it."""
    try:
        own = copy.copy(error)
    except Exception:
        # Its constructor has other parameters than `args`.
        return error
    if type(own) is not type(error):
        return error
    return own.with_traceback(error.__traceback__)
