"""Rows of ai.paddle_ipu: what Paddle has and PopART lacks."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import ANY, BOOLS, FLOATS, INTS, int_, paddle_ipu_row
from paddle_ipu.popart.shape_inference import elementwise, loss, shaping

paddle_ipu_row("LogicalXor", 2, elementwise.comparison, BOOLS, differentiable=False)
paddle_ipu_row("LogNll", 2, loss.log_nll, (FLOATS, ANY), [int_("ignore_index", -100)])
paddle_ipu_row("GatherNd", 2, shaping.gather_nd, (ANY, INTS))
paddle_ipu_row(
    "TakeAlongAxis", 2, shaping.take_along_axis, (ANY, INTS), [int_("axis", required=True)]
)
