"""Rows of ai.paddle_ipu: what Paddle has and PopART lacks."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FLOATS,
    INTS,
    NO_GRADIENT,
    READS_EVERYTHING,
    UNPRICED,
    OpCost,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import elementwise, loss, shaping

paddle_ipu_row("LogicalXor", 2, elementwise.comparison, BOOLS, OpCost("map", 4, 4), NO_GRADIENT)
paddle_ipu_row(
    "LogNll", 2, loss.log_nll, (FLOATS, ANY), UNPRICED, READS_EVERYTHING,
    [int_("ignore_index", -100)],
)  # fmt: skip
paddle_ipu_row("GatherNd", 2, shaping.gather_nd, (ANY, INTS), UNPRICED, READS_EVERYTHING)
paddle_ipu_row(
    "TakeAlongAxis", 2, shaping.take_along_axis, (ANY, INTS), UNPRICED, READS_EVERYTHING,
    [int_("axis", required=True)],
)  # fmt: skip
