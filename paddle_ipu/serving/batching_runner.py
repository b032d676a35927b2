"""``BatchingRunner``: many threads' requests of few rows, served by a model of micro-batches."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from paddle_ipu.errors import OptionError, RequestTimeoutError, ServingError
from paddle_ipu.runtime.ipu_program import IpuProgram
from paddle_ipu.serving.batcher import Batcher
from paddle_ipu.serving.model import Array, FunctionModel, Inputs, Model
from paddle_ipu.serving.program_model import ProgramModel
from paddle_ipu.serving.request import Request
from paddle_ipu.serving.statistics import Statistics

DEFAULT_BUFFERS = 10
"""Micro-batches that may wait."""

Function = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""A model that is a function: input name -> rows, to output name -> rows."""


@runtime_checkable
class Servable(Protocol):
    """What has a model to serve, like a predictor."""

    def serving_model(self, shared_outputs: Collection[str] = ()) -> Model:
        """The model; `shared_outputs` are the same whatever the rows are."""


class BatchingRunner:
    """Serves a model that takes micro-batches to requests of any number of rows.

    Requests wait until they fill a micro-batch, or until the first of them has waited for
    `timeout_ms`; missing rows repeat one that is there. Each request gets the outputs of its own
    rows. Requests may be larger than a micro-batch: they are spread over several.

    All methods may be called by any thread. Two threads of the runner's own, which the first
    request starts, call the model, one at a time; they end with ``close``, with the runner, or
    with the process.

    Args:
        model: what ``IpuCompiledProgram.compile`` returned, a predictor, a `Model`, or a
            function of a dict of arrays that returns one.
        micro_batch: rows that a function takes; a Model knows it.
        inputs: of a function: input name -> (shape of one row, dtype).
        timeout_ms: how long a request waits for others, in milliseconds; 0: not at all, so that
            only requests which came while the model was busy share a batch.
        max_waiting: rows that may wait; 10 micro-batches by default. Requests beyond are held up
            or refused.
        shared_outputs: outputs that are the same whatever the rows are; every request gets them
            whole. Any other output has to begin with the axis of rows.
        isolate_errors: where the model raises for a batch of several requests, compute each of
            them alone, so that only those fail which make it raise; else all of them fail.

    Raises:
        OptionError: an argument out of range, or missing.
        ServingError: an output without rows that is not in `shared_outputs`.
    """

    def __init__(
        self,
        model: Model | IpuProgram | Servable | Function,
        *,
        micro_batch: int | None = None,
        inputs: Mapping[str, tuple[Sequence[int], str]] | None = None,
        timeout_ms: float = 5.0,
        max_waiting: int | None = None,
        shared_outputs: Collection[str] = (),
        isolate_errors: bool = False,
    ) -> None:
        if isinstance(model, IpuProgram):
            model = ProgramModel(model, shared=shared_outputs)
        elif isinstance(model, Servable):
            model = model.serving_model(shared_outputs)
        if not isinstance(model, Model):
            model = _function_model(model, inputs, micro_batch)
        elif inputs is not None or micro_batch not in (None, model.micro_batch):
            raise OptionError(
                f"BatchingRunner: the model knows its inputs and its micro-batch of "
                f"{model.micro_batch} rows. Leave `inputs` and `micro_batch` out."
            )
        if not isinstance(timeout_ms, (int, float, np.number)) or not 0 <= timeout_ms < math.inf:
            raise OptionError(f"BatchingRunner: timeout_ms is {timeout_ms!r}, expected 0 or more.")
        if max_waiting is None:
            max_waiting = DEFAULT_BUFFERS * model.micro_batch
        if max_waiting < 1:
            raise OptionError(
                f"BatchingRunner: max_waiting is {max_waiting!r}, expected 1 or more."
            )
        if not model.inputs:
            raise ServingError("the model has no inputs, so a request would have no rows.")
        self._model = model
        self._timeout = timeout_ms / 1000
        self._inputs = Inputs(model)
        self._batcher = Batcher(model, self._timeout, max_waiting, shared_outputs, isolate_errors)
        # The threads keep the batcher, not the runner.
        end = weakref.finalize(self, _abandon, weakref.ref(self._batcher))
        end.atexit = False

    @property
    def model(self) -> Model:
        """What is served."""
        return self._model

    def run(
        self,
        feed: Mapping[str, Any],
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
    ) -> dict[str, Array]:
        """Waits for the outputs of some rows.

        Args:
            feed: input name -> array [rows, *shape of a row].
            timeout: seconds that may pass, in the queue too; None for no limit. A request with a
                limit waits for others during at most half of it.
            outputs: those wanted; all by default.

        Returns:
            Output name -> array [rows, ...] of the caller's own.

        Raises:
            FeedError: a wrong name, shape, dtype or number of rows.
            RequestTimeoutError: the time is over.
            ServingError: the runner was shut down.
            Exception: whatever the model raised for the rows, or for the batch they were in.
        """
        arrays, rows = self._inputs.checked(feed)
        now = monotonic()
        deadline, flush_by = self._times(now, timeout)
        request = Request(arrays, rows, outputs, now, deadline, flush_by)
        try:
            self._batcher.put(request, block=True)
            left = min(max(0.0, deadline - monotonic()), threading.TIMEOUT_MAX)
            try:
                # Unlike `result`, this raises no TimeoutError of the model's.
                request.future.exception(left)
            except TimeoutError:
                raise RequestTimeoutError(
                    f"no answer within {timeout:.3g} s; the request is given up. Give it more "
                    "time, or send fewer at once."
                ) from None
        except BaseException:
            # Ctrl-C may come after the request was queued. Nobody waits for it any more.
            request.future.cancel()
            raise
        return request.future.result()

    def submit(
        self,
        feed: Mapping[str, Any],
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        block: bool = True,
    ) -> Future[dict[str, Array]]:
        """Has the outputs of some rows computed; the feed is copied.

        Args:
            feed: as for `run`.
            timeout: seconds within which the model is to begin with them, else the Future has a
                RequestTimeoutError; None for no limit.
            outputs: those wanted; all by default.
            block: wait where too many rows wait already; else raise QueueFullError.

        Returns:
            A Future of what `run` returns. ``cancel()`` works until the model begins. Its
            callbacks run in the runner's threads: they must neither take long nor wait for other
            requests.

        Raises:
            FeedError: a wrong name, shape, dtype or number of rows.
            QueueFullError: too many rows wait, and `block` is False.
            RequestTimeoutError: too many rows waited for too long.
            ServingError: the runner was shut down.
        """
        arrays, rows = self._inputs.checked(feed)
        arrays = {name: np.array(array) for name, array in arrays.items()}
        now = monotonic()
        request = Request(arrays, rows, outputs, now, *self._times(now, timeout))
        self._batcher.put(request, block=block)
        return request.future

    def statistics(self) -> Statistics:
        """Counts, fill and latencies until now."""
        return self._batcher.statistics()

    @property
    def is_open(self) -> bool:
        """True while requests are taken."""
        return self._batcher.is_open

    def close(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Takes no more requests and ends the runner's threads.

        Args:
            drain: answer what waits; else it gets a ServingError. The batch that the model
                computes is answered in any case.
            timeout: seconds, after which the rest is given up; None for no limit.

        Returns:
            True where no thread is left; False where the model did not return in time.
        """
        return self._batcher.close(drain, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close(drain=kind is None)

    def _times(self, now: float, timeout: float | None) -> tuple[float, float]:
        """(the last moment to begin, the moment to begin with a batch that is not full)."""
        if timeout is None:
            return math.inf, now + self._timeout
        return now + timeout, now + min(self._timeout, timeout / 2)


def _function_model(
    function: Function,
    inputs: Mapping[str, tuple[Sequence[int], str]] | None,
    micro_batch: int | None,
) -> Model:
    if not callable(function):
        raise OptionError(
            f"BatchingRunner: the model is {function!r}, expected what IpuCompiledProgram.compile "
            "returned, a predictor of a config with enable_ipu, a paddle_ipu.serving.Model, or a "
            "function of a dict of arrays."
        )
    if inputs is None or micro_batch is None:
        raise OptionError(
            "BatchingRunner: of a function, `inputs` and `micro_batch` have to be given, for "
            "instance inputs={'x': ([3], 'float32')}, micro_batch=8."
        )
    if micro_batch < 1:
        raise OptionError(f"BatchingRunner: micro_batch is {micro_batch!r}, expected 1 or more.")
    return FunctionModel(function, inputs, micro_batch)


def _abandon(batcher: weakref.ref[Batcher]) -> None:
    alive = batcher()
    if alive is not None:
        alive.abandon()
