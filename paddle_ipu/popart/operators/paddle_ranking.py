"""Rows of ai.paddle_ipu: ranking and matching."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    NO_GRADIENT,
    UNPRICED,
    float_,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import ranking

paddle_ipu_row("DequantGather", 2, ranking.dequant_gather, (FLOATS, INTS), UNPRICED, NO_GRADIENT)
paddle_ipu_row(
    "BipartiteMatch", 1, ranking.bipartite_match, FLOATS, UNPRICED, NO_GRADIENT,
    [int_("per_prediction", 0), float_("dist_threshold", 0.5)], outputs=2,
)  # fmt: skip
