"""Rows of ai.onnx: elementwise operators."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FLOATS,
    NUMBERS,
    Attribute,
    family,
    float_,
    int_,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import elementwise
from paddle_ipu.popart.shape_inference.context import same_as_first

family(
    onnx_row,
    "Sqrt:6 Exp:6 Log:6 Erf:9 Tanh:6 Sigmoid:6 Reciprocal:6 Sin:7 Cos:7 Tan:7 Asin:7 "
    "Acos:7 Atan:7 Sinh:9 Cosh:9 Asinh:9 Acosh:9 Atanh:9 Softplus:1 Softsign:1",
    1,
    same_as_first,
    FLOATS,
)
family(onnx_row, "Abs:6 Neg:6 Relu:6", 1, same_as_first, NUMBERS)
family(onnx_row, "Floor:6 Ceil:6 Round:11 Sign:9", 1, same_as_first, NUMBERS)
family(onnx_row, "Identity:1", 1, same_as_first, ANY)
family(onnx_row, "Elu:6", 1, same_as_first, FLOATS, [float_("alpha", 1.0)])
family(onnx_row, "LeakyRelu:6", 1, same_as_first, FLOATS, [float_("alpha", 0.01)])
family(
    onnx_row, "HardSigmoid:6", 1, same_as_first, FLOATS, [float_("alpha", 0.2), float_("beta", 0.5)]
)
family(
    onnx_row,
    "Selu:6",
    1,
    same_as_first,
    FLOATS,
    [float_("alpha", 1.67326), float_("gamma", 1.0507)],
)
family(onnx_row, "Add:7 Sub:7 Mul:7 Div:7 Pow:7", 2, elementwise.binary, NUMBERS)
onnx_row("Mod", 2, elementwise.binary, NUMBERS, [int_("fmod", 0)], version=10)
family(onnx_row, "Sum:8 Max:8 Min:8 Mean:8", (1, None), elementwise.variadic, NUMBERS)
family(onnx_row, "Equal:11", 2, elementwise.comparison, NUMBERS | BOOLS, differentiable=False)
family(onnx_row, "Less:9 Greater:9", 2, elementwise.comparison, NUMBERS, differentiable=False)
onnx_row(
    "And", 2, elementwise.comparison, BOOLS, name="logical_and", version=7, differentiable=False
)
onnx_row("Or", 2, elementwise.comparison, BOOLS, name="logical_or", version=7, differentiable=False)
onnx_row("Not", 1, same_as_first, BOOLS, name="logical_not", differentiable=False)
onnx_row("IsNaN", 1, elementwise.test, FLOATS, version=9, differentiable=False)
onnx_row(
    "IsInf",
    1,
    elementwise.test,
    FLOATS,
    [int_("detect_negative", 1), int_("detect_positive", 1)],
    version=10,
    differentiable=False,
)
onnx_row("PRelu", 2, elementwise.prelu, NUMBERS, version=9)
family(onnx_row, "Shrink:9", 1, same_as_first, NUMBERS, [float_("bias", 0.0), float_("lambd", 0.5)])
family(onnx_row, "ThresholdedRelu:10", 1, same_as_first, FLOATS, [float_("alpha", 1.0)])
onnx_row("Where", 3, elementwise.where, (BOOLS, ANY), version=9)
onnx_row("Clip", (1, 3), elementwise.clip, NUMBERS, constants=(1, 2), version=11)
onnx_row("Cast", 1, elementwise.cast, ANY, [("to", Attribute("dtype", required=True))], version=9)
onnx_row(
    "Dropout", 1, elementwise.dropout, FLOATS, [float_("ratio", 0.5)], outputs=(1, 2), version=10
)
