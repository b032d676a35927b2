"""A request on its way: who waits for it, which of its rows were taken, what came back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

import numpy as np

from paddle_ipu.serving.sleepers import Sleeper

Array = np.ndarray[Any, Any]
Answer = dict[str, Array]


class Outputs:
    """What the model gave for a batch.

    Args:
        arrays: output name -> rows of the whole batch.
        shared: outputs that do not depend on the rows.
    """

    __slots__ = ("_arrays", "_shared")

    def __init__(self, arrays: Mapping[str, Array], shared: Collection[str]) -> None:
        self._arrays = arrays
        self._shared = shared

    def unknown(self, wanted: Sequence[str]) -> str | None:
        """The first that is wanted and is not there."""
        return next((name for name in wanted if name not in self._arrays), None)

    def rows(self, wanted: Sequence[str] | None, start: int, rows: int) -> Answer:
        """Copies: who gets them may write to them, and keep them without the rest of the batch."""
        arrays, shared, end = self._arrays, self._shared, start + rows
        return {
            name: (arrays[name] if name in shared else arrays[name][start:end]).copy()
            for name in (arrays if wanted is None else wanted)
        }


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
        turn: whose turn it is to wake up when it is answered; None where ``finish`` says so.
        is_quick: ending it takes the thread that does it next to no time.
    """

    __slots__ = (
        "arrays", "arrived", "deadline", "flush_by", "left", "outputs", "over", "parts", "rows",
        "taken",
    )  # fmt: skip

    turn: Sleeper | None = None
    is_quick: ClassVar[bool] = False

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

    def finish(self, error: BaseException | None) -> None:
        """Gives the answer, or the error, to whom it belongs; called once, without locks."""
        raise NotImplementedError

    def keep(self, outputs: Outputs, start: int) -> None:
        """Keeps the answer, all of whose rows are in one batch, from its row `start`."""
        self.parts = outputs.rows(self.outputs, start, self.rows)

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
    """A request that a thread waits for."""

    __slots__ = ("_batch", "_error", "_sleeper", "turn")

    is_quick = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sleeper = Sleeper()
        # Who has little time cannot wait for others to wake up.
        self.turn = self._sleeper if self.deadline == math.inf else None
        self._batch: tuple[Outputs, int] | None = None
        self._error: BaseException | None = None

    def begin(self) -> bool:
        return not self._sleeper.is_gone

    def keep(self, outputs: Outputs, start: int) -> None:
        # The thread itself copies its rows, while the next one wakes up.
        self._batch = outputs, start

    def finish(self, error: BaseException | None) -> None:
        self._error = error
        self._sleeper.wake()

    def wait(self, seconds: float) -> bool:
        """Waits for the end; False where that took too long, and then nobody waits any more."""
        return self._sleeper.sleep(seconds)

    def result(self) -> Answer:
        """What came back, or the error."""
        if self._error is not None:
            raise self._error
        if self._batch is not None:
            outputs, start = self._batch
            return outputs.rows(self.outputs, start, self.rows)
        assert self.parts is not None
        return self.parts


class Promised(Request):
    """A request behind a Future."""

    __slots__ = ("future",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.future: Future[Answer] = Future()

    def begin(self) -> bool:
        try:
            return self.future.set_running_or_notify_cancel()
        except RuntimeError:
            # Who holds the Future has set it; concurrent.futures logs that.
            return False

    def finish(self, error: BaseException | None) -> None:
        if error is not None:
            # One that was never begun may have been cancelled meanwhile.
            if self.future.running() or self.future.set_running_or_notify_cancel():
                self.future.set_exception(error)
        else:
            assert self.parts is not None
            self.future.set_result(self.parts)
