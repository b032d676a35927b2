"""What random draws seldom hit: attributes of few values, and operands of a certain kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.differential.operators.use import Array, Use

Draw = Callable[[np.random.Generator, Array, Use], Array]

_OF_BOXES = ("roi_align", "roi_pool", "psroi_pool", "distribute_fpn_proposals")

ATTRIBUTES: Mapping[tuple[str, str], Sequence[Any]] = {}
"""(operator, attribute) -> values that it may have."""

KEPT: frozenset[tuple[str, str]] = frozenset(
    {
        *((op, name) for op in _OF_BOXES for name in ("boxes_num", "RoisNum", "rois_num")),
        *(("viterbi_decode", name) for name in ("lengths", "Lengths")),
        *(("rnn", name) for name in ("sequence_length", "SequenceLength")),
    }
)
"""(operator, operand) whose numbers belong to the shapes of others; they stay as in the example."""

OPERANDS: Mapping[tuple[str, str], Draw] = {}
"""(operator, operand) -> numbers for it."""
