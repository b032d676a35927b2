"""Rows of ai.graphcore: medians and buckets."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import NUMBERS, graphcore_row, int_, ints
from paddle_ipu.popart.shape_inference import reduce

graphcore_row(
    "ReduceMedian", 1, reduce.median, NUMBERS, [ints("axes"), int_("keepdims", 1)], outputs=2
)
graphcore_row("Bucketize", 2, reduce.bucketize, NUMBERS, [int_("right", 0)], differentiable=False)
