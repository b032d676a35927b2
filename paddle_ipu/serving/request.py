"""A request: its Future, how many of its rows are in batches, and their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Answer = dict[str, Array]


def rows_of(
    outputs: Mapping[str, Array],
    names: Sequence[str] | None,
    start: int,
    rows: int,
    shared: Collection[str],
) -> Answer:
    """Copies of some rows of a batch's outputs, which do not keep the rest of the batch alive.

    Args:
        outputs: output name -> rows of the whole batch.
        names: of the outputs that are wanted; None for all.
        start: the first row.
        rows: their number.
        shared: outputs that do not depend on the rows.
    """
    return {
        name: (outputs[name] if name in shared else outputs[name][start : start + rows]).copy()
        for name in (outputs if names is None else names)
    }


class Request:
    """Rows to be computed, and their results.

    Attributes:
        arrays: input name -> rows.
        rows: their number.
        outputs: names of the outputs that are wanted.
        arrived: when, by the monotonic clock.
        deadline: when it is too late to begin.
        flush_by: when it is to be begun, though the micro-batch is not full.
        future: of the answer.
        batched: rows that are in a batch.
        left: rows that are not answered.
        ended: answered or failed; its other rows need no answer.
    """

    __slots__ = (
        "_answer", "arrays", "arrived", "batched", "deadline", "ended", "flush_by", "future",
        "left", "outputs", "rows",
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
        self.future: Future[Answer] = Future()
        self.batched = 0
        self.ended = False
        self._answer: Answer = {}

    def begin(self) -> bool:
        """Called when its first rows go into a batch.

        Returns:
            False where it was cancelled.
        """
        try:
            return self.future.set_running_or_notify_cancel()
        except RuntimeError:
            # The caller has set the Future, which concurrent.futures logs.
            return False

    def keep(self, start: int, rows: int, part: Answer, shared: Collection[str]) -> bool:
        """Keeps the results of some of its rows.

        Args:
            start: the first of them.
            rows: their number.
            part: the outputs.
            shared: outputs that do not depend on the rows.

        Returns:
            Whether all rows are answered.
        """
        self.left -= rows
        if rows == self.rows:
            self._answer = part
            return True
        for name, array in part.items():
            if name in shared:
                self._answer[name] = array
                continue
            if name not in self._answer:
                self._answer[name] = np.empty((self.rows, *array.shape[1:]), array.dtype)
            self._answer[name][start : start + rows] = array
        return not self.left

    def finish(self, error: BaseException | None) -> None:
        """Sets the Future; called once, without locks.

        Args:
            error: None to answer.
        """
        if error is None:
            self.future.set_result(self._answer)
        # A request that was not begun may have been cancelled meanwhile.
        elif self.future.running() or self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)
