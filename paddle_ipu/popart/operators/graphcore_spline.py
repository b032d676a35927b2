"""Rows of ai.graphcore: B-splines over the edges of a graph."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, INTS, NO_GRADIENT, UNPRICED, graphcore_row, int_
from paddle_ipu.popart.shape_inference import spline

graphcore_row(
    "SplineBasis", 3, spline.basis, (FLOATS, INTS, INTS), UNPRICED, NO_GRADIENT,
    [int_("degree", 1)], outputs=2,
)  # fmt: skip
graphcore_row(
    "SplineWeighting", 4, spline.weighting, (FLOATS, FLOATS, FLOATS, INTS), UNPRICED, NO_GRADIENT
)
