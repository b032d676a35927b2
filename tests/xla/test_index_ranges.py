"""Few indices and many are judged alike."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu.errors import IndexRangeError
from paddle_ipu.xla.index_ranges import IndexRange, judge


@pytest.mark.parametrize("turns", [1, 3, 200])
@pytest.mark.parametrize("wrong", [(-1, 4), (0, 5), (-3, 9)])
def test_the_first_wrong_index_is_told(turns: int, wrong: tuple[int, int]) -> None:
    ranges = [IndexRange("first", "Gather", "index", 0, 9), IndexRange("", "Gather", "id", 0, 4)]
    extremes = np.tile(np.asarray([[0, 9], [2, 4]], np.int32), (turns, 1, 1))
    judge(ranges, extremes, lambda turn: f"turn {turn}", 0)
    extremes[turns // 2, 1] = wrong
    got = wrong[0] if wrong[0] < 0 else wrong[1]
    where = f" in turn {turns // 2}" if turns > 1 else ""
    with pytest.raises(IndexRangeError, match=f"Gather got id {got}{where}, expected 0 to 4"):
        judge(ranges, extremes, lambda turn: f"turn {turn}", 0)
