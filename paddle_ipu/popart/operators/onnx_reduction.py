"""Rows of ai.onnx: reductions and orderings."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    INTS,
    NO_GRADIENT,
    NUMBERS,
    READS_INPUT_AND_OUTPUT,
    READS_NOTHING,
    GradientReads,
    OpCost,
    axes,
    int_,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import reduce

onnx_row(
    ("ReduceMean", "ReduceSum"), 1, reduce.reduce, NUMBERS, OpCost("reduce"), READS_NOTHING,
    [axes(), int_("keepdims", 1)], version=11,
)  # fmt: skip
onnx_row(
    (
        "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2",
        "ReduceLogSumExp", "ReduceLogSum",
    ),
    1, reduce.reduce, NUMBERS, OpCost("reduce", 2, 2), READS_INPUT_AND_OUTPUT,
    [axes(), int_("keepdims", 1)], version=11,
)  # fmt: skip
onnx_row(
    ("ArgMax", "ArgMin"), 1, reduce.arg_reduce, NUMBERS, OpCost("reduce", 4, 4), NO_GRADIENT,
    [int_("axis", 0), int_("keepdims", 1)], version=11,
)  # fmt: skip
onnx_row(
    "TopK", 2, reduce.topk, (NUMBERS, INTS), OpCost("sort", 8, 8), GradientReads(outputs=(1,)),
    [int_("axis", -1), int_("largest", 1), int_("sorted", 1)],
    version=11, outputs=2, constants=(1,),
)  # fmt: skip
onnx_row(
    "CumSum", 2, reduce.cumsum, (NUMBERS, INTS), OpCost("reduce", 2, 2), READS_NOTHING,
    [int_("exclusive", 0), int_("reverse", 0)], version=11, constants=(1,),
)  # fmt: skip
