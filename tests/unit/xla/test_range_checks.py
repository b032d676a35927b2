"""Few indices and many are checked alike, by the step's extremes and as they are fed."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu.errors import IndexRangeError
from paddle_ipu.xla.lowerings.range_checks import RangeCheck, check_extremes, check_feeds


@pytest.mark.parametrize("turns", [1, 3, 200])
@pytest.mark.parametrize("wrong", [(-1, 4), (0, 5), (-3, 9)])
def test_the_first_wrong_index_is_reported(turns: int, wrong: tuple[int, int]) -> None:
    checks = [RangeCheck("first", "Gather", "index", 0, 9), RangeCheck("", "Gather", "id", 0, 4)]
    extremes = np.tile(np.asarray([[0, 9], [2, 4]], np.int32), (turns, 1, 1))
    check_extremes(checks, extremes, lambda turn: f"turn {turn}", 0)
    extremes[turns // 2, 1] = wrong
    got = wrong[0] if wrong[0] < 0 else wrong[1]
    where = f" in turn {turns // 2}" if turns > 1 else ""
    with pytest.raises(IndexRangeError, match=f"Gather got id {got}{where}, expected 0 to 4"):
        check_extremes(checks, extremes, lambda turn: f"turn {turn}", 0)


@pytest.mark.parametrize("count", [3, 1000])
@pytest.mark.parametrize("wrong", [-1, 5])
def test_feeds_are_checked_before_the_run(count: int, wrong: int) -> None:
    taken = RangeCheck("first", "Gather", "index", 0, 4)
    loss = RangeCheck("", "SoftmaxCrossEntropy", "label", 0, 4, ignored=-100)
    ids = np.arange(count, dtype=np.int32) % 5
    labels = np.where(ids == 2, -100, ids)
    check_feeds([("ids", taken), ("labels", loss)], {"ids": ids, "labels": labels})
    labels[1] = wrong
    with pytest.raises(IndexRangeError, match=f"CrossEntropy got label {wrong}, expected 0 to 4"):
        check_feeds([("ids", taken), ("labels", loss)], {"ids": ids, "labels": labels})
    ids[1] = wrong
    with pytest.raises(IndexRangeError, match=rf"\(first\) got index {wrong}, expected 0 to 4"):
        check_feeds([("ids", taken), ("labels", loss)], {"ids": ids, "labels": labels})
