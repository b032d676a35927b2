"""A request on its way: who waits for it, which of its rows were taken, what came back."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Answer = dict[str, Array]


class Request:
    """Rows that somebody waits for.

    Attributes:
        arrays: input name -> rows.
        rows: their number.
        outputs: names of the outputs that are wanted.
        arrived: when, by the monotonic clock.
        deadline: when it is too late to begin.
        flush_by: when it is to be begun, though the micro-batch is not full.
        taken: rows that are in a batch.
        left: rows that are not answered.
        over: it came to an end: answered, or failed, so that its other rows need no answer.
    """

    __slots__ = (
        "arrays", "arrived", "deadline", "flush_by", "left", "outputs", "over", "parts", "rows",
        "taken",
    )  # fmt: skip

    def __init__(
        self, arrays: Mapping[str, Array], rows: int, outputs: Sequence[str] | None,
        arrived: float, deadline: float, flush_by: float,
    ) -> None:  # fmt: skip
        self.arrays = arrays
        self.rows = self.left = rows
        self.outputs = outputs
        self.arrived = arrived
        self.deadline = deadline
        self.flush_by = flush_by
        self.taken = 0
        self.over = False
        self.parts: Answer | None = None

    def begin(self) -> bool:
        """Called when its first rows are taken: False where nobody waits any more."""
        raise NotImplementedError

    def finish(self, answer: Answer | None, error: BaseException | None) -> None:
        """Gives the answer, or the error, to whom it belongs; called once, without locks."""
        raise NotImplementedError

    def put(self, start: int, rows: int, part: Answer, shared: Collection[str]) -> None:
        """Keeps the answer to some of its rows, of a request that several batches share."""
        if self.parts is None:
            self.parts = {
                name: array
                if name in shared
                else np.empty((self.rows, *array.shape[1:]), array.dtype)
                for name, array in part.items()
            }
        for name, array in part.items():
            if name not in shared:
                self.parts[name][start : start + rows] = array
        self.left -= rows


class WaitedFor(Request):
    """A request that a thread waits for. A bare lock costs a fraction of a Future."""

    __slots__ = ("_answer", "_done", "_error", "_following", "abandoned")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._done = threading.Lock()
        self._done.acquire()
        self.abandoned = False
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self._following: list[WaitedFor] | None = None

    def begin(self) -> bool:
        return not self.abandoned

    def finish(self, answer: Answer | None, error: BaseException | None) -> None:
        self._answer, self._error = answer, error
        self._wake()

    def then(self, answer: Answer | None, following: WaitedFor | None) -> None:
        """Keeps an answer for the thread, which is to wake the one of `following`."""
        self._answer = answer
        self._following = None if following is None else [following]

    def _wake(self) -> None:
        self._done.release()
        if self.abandoned:
            self._wake_following()

    def _wake_following(self) -> None:
        """Once only, by whichever thread comes first."""
        if self._following:
            with suppress(IndexError):
                self._following.pop()._wake()

    def wait(self, seconds: float) -> bool:
        """Waits for the end; False where that took too long, and then nobody waits any more."""
        try:
            if self._done.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
                self._wake_following()
                return True
        except BaseException:
            self._give_up()
            raise
        self._give_up()
        return False

    def _give_up(self) -> None:
        self.abandoned = True
        if self._done.acquire(blocking=False):
            self._wake_following()

    def result(self) -> Answer:
        """What came back, or the error."""
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer


def answer_all(requests: Sequence[Request]) -> None:
    """Gives requests their parts.

    Threads that wait without a limit wake each other, one the next: all at once they would wake up
    to wait for the interpreter, each a second time.
    """
    waiting: list[WaitedFor] = []
    for request in requests:
        if isinstance(request, WaitedFor) and request.deadline == math.inf:
            waiting.append(request)
        else:
            request.finish(request.parts, None)
    for one, following in zip_longest(waiting, waiting[1:]):
        one.then(one.parts, following)
    if waiting:
        waiting[0]._wake()


class Promised(Request):
    """A request behind a Future."""

    __slots__ = ("future",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.future: Future[Answer] = Future()

    def begin(self) -> bool:
        return self.future.set_running_or_notify_cancel()

    def finish(self, answer: Answer | None, error: BaseException | None) -> None:
        if error is not None:
            # One that was never begun may have been cancelled meanwhile.
            if self.future.running() or self.future.set_running_or_notify_cancel():
                self.future.set_exception(error)
        else:
            assert answer is not None
            self.future.set_result(answer)
