"""Rows of ai.graphcore: medians and buckets."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    NO_GRADIENT,
    NUMBERS,
    READS_INPUT_AND_OUTPUT,
    UNPRICED,
    OpCost,
    graphcore_row,
    int_,
    ints,
)
from paddle_ipu.popart.shape_inference import reduce

graphcore_row(
    "ReduceMedian", 1, reduce.median, NUMBERS, OpCost("reduce", 2, 2), READS_INPUT_AND_OUTPUT,
    [ints("axes"), int_("keepdims", 1)], outputs=2,
)  # fmt: skip
graphcore_row("Bucketize", 2, reduce.bucketize, NUMBERS, UNPRICED, NO_GRADIENT, [int_("right", 0)])
