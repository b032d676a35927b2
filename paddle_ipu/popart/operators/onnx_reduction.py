"""Rows of ai.onnx: reductions and orderings."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import INTS, NUMBERS, family, int_, ints, onnx_row
from paddle_ipu.popart.shape_inference import reduce

family(
    onnx_row,
    "ReduceMean:11 ReduceSum:11 ReduceMax:11 ReduceMin:11 ReduceProd:11 ReduceSumSquare:11 "
    "ReduceL1:11 ReduceL2:11 ReduceLogSumExp:11 ReduceLogSum:11",
    1,
    reduce.reduce,
    NUMBERS,
    [ints("axes"), int_("keepdims", 1)],
)
family(
    onnx_row,
    "ArgMax:11 ArgMin:11",
    1,
    reduce.arg_reduce,
    NUMBERS,
    [int_("axis", 0), int_("keepdims", 1)],
    differentiable=False,
)
onnx_row(
    "TopK",
    2,
    reduce.topk,
    (NUMBERS, INTS),
    [int_("axis", -1), int_("largest", 1), int_("sorted", 1)],
    outputs=2,
    constants=(1,),
    version=11,
)
onnx_row(
    "CumSum",
    2,
    reduce.cumsum,
    (NUMBERS, INTS),
    [int_("exclusive", 0), int_("reverse", 0)],
    constants=(1,),
    version=11,
)
