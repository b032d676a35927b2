"""Rows of ai.onnx: elementwise operators."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ALL,
    ANY,
    BOOLS,
    FLOATS,
    NO_GRADIENT,
    NUMBERS,
    READS_INPUT,
    READS_NOTHING,
    READS_OPERANDS,
    READS_OUTPUT,
    VIEW,
    Attribute,
    GradientReads,
    OpCost,
    activation,
    float_,
    int_,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import elementwise
from paddle_ipu.popart.shape_inference.context import same_as_first

onnx_row("Sqrt", 1, same_as_first, FLOATS, OpCost("map", 23, 10), READS_OUTPUT, version=6)
onnx_row("Exp", 1, same_as_first, FLOATS, OpCost("map", 4, 6), READS_OUTPUT, version=6)
onnx_row("Log", 1, same_as_first, FLOATS, OpCost("map", 4, 12), READS_INPUT, version=6)
onnx_row("Erf", 1, same_as_first, FLOATS, OpCost("map", 64, 36), READS_INPUT, version=9)
onnx_row("Tanh", 1, same_as_first, FLOATS, activation(4, 12), READS_OUTPUT, version=6)
onnx_row("Sigmoid", 1, same_as_first, FLOATS, activation(6, 12), READS_OUTPUT, version=6)
onnx_row("Reciprocal", 1, same_as_first, FLOATS, OpCost("map", 15, 6), READS_OUTPUT, version=6)
onnx_row(("Sin", "Cos"), 1, same_as_first, FLOATS, OpCost("map", 104, 4600), READS_INPUT, version=7)
onnx_row(
    ("Tan", "Asin", "Acos", "Atan"), 1, same_as_first, FLOATS, OpCost("map", 408, 10200),
    READS_INPUT, version=7,
)  # fmt: skip
onnx_row(
    ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh"), 1, same_as_first, FLOATS,
    OpCost("map", 408, 10200), READS_INPUT, version=9,
)  # fmt: skip
onnx_row("Softplus", 1, same_as_first, FLOATS, activation(12, 24), READS_INPUT)
onnx_row("Softsign", 1, same_as_first, FLOATS, OpCost("map", 12, 24), READS_INPUT)
onnx_row("Abs", 1, same_as_first, NUMBERS, OpCost("map", 2, 2), READS_INPUT, version=6)
onnx_row("Neg", 1, same_as_first, NUMBERS, OpCost("map", 2, 2), READS_NOTHING, version=6)
onnx_row("Relu", 1, same_as_first, NUMBERS, activation(3, 3), READS_OUTPUT, version=6)
onnx_row(
    ("Floor", "Ceil"), 1, same_as_first, NUMBERS, OpCost("map", 2, 2), READS_NOTHING, version=6
)
onnx_row("Round", 1, same_as_first, NUMBERS, OpCost("map", 2, 2), READS_NOTHING, version=11)
onnx_row("Sign", 1, same_as_first, NUMBERS, OpCost("map", 2, 2), READS_INPUT, version=9)
onnx_row("Identity", 1, same_as_first, ANY, VIEW, READS_NOTHING)
onnx_row(
    "Elu", 1, same_as_first, FLOATS, activation(8, 10), READS_INPUT,
    [float_("alpha", 1.0)], version=6,
)  # fmt: skip
onnx_row(
    "LeakyRelu", 1, same_as_first, FLOATS, activation(4, 4), READS_INPUT,
    [float_("alpha", 0.01)], version=6,
)  # fmt: skip
onnx_row(
    "HardSigmoid", 1, same_as_first, FLOATS, OpCost("map", 4, 4), READS_INPUT,
    [float_("alpha", 0.2), float_("beta", 0.5)], version=6,
)  # fmt: skip
onnx_row(
    "Selu", 1, same_as_first, FLOATS, activation(8, 10), READS_INPUT,
    [float_("alpha", 1.67326), float_("gamma", 1.0507)], version=6,
)  # fmt: skip
onnx_row(("Add", "Sub"), 2, elementwise.binary, NUMBERS, OpCost("map"), READS_NOTHING, version=7)
onnx_row("Mul", 2, elementwise.multiply, NUMBERS, OpCost("map"), READS_OPERANDS, version=7)
onnx_row("Div", 2, elementwise.binary, NUMBERS, OpCost("map", 21, 10), READS_OPERANDS, version=7)
onnx_row(
    "Pow", 2, elementwise.binary, NUMBERS, OpCost("map", 30, 272),
    GradientReads(inputs=(0, 1), outputs=(0,)), version=7,
)  # fmt: skip
onnx_row(
    "Mod", 2, elementwise.binary, NUMBERS, OpCost("map", 21, 10), READS_OPERANDS,
    [int_("fmod", 0)], version=10,
)  # fmt: skip
onnx_row("Sum", (1, None), elementwise.variadic, NUMBERS, OpCost("map"), READS_NOTHING, version=8)
onnx_row(
    ("Max", "Min"), (1, None), elementwise.variadic, NUMBERS, OpCost("map", 4, 4),
    GradientReads(inputs=ALL), version=8,
)  # fmt: skip
onnx_row(
    "Mean", (1, None), elementwise.variadic, NUMBERS, OpCost("map", 2, 2), READS_NOTHING, version=8
)
onnx_row(
    "Equal", 2, elementwise.comparison, NUMBERS | BOOLS, OpCost("map", 4, 4), NO_GRADIENT,
    version=11,
)  # fmt: skip
onnx_row(
    ("Less", "Greater"), 2, elementwise.comparison, NUMBERS, OpCost("map", 4, 4), NO_GRADIENT,
    version=9,
)  # fmt: skip
onnx_row(
    "And", 2, elementwise.comparison, BOOLS, OpCost("map", 4, 4), NO_GRADIENT, version=7,
    name="logical_and",
)  # fmt: skip
onnx_row(
    "Or", 2, elementwise.comparison, BOOLS, OpCost("map", 4, 4), NO_GRADIENT, version=7,
    name="logical_or",
)  # fmt: skip
onnx_row("Not", 1, same_as_first, BOOLS, OpCost("map", 4, 4), NO_GRADIENT, name="logical_not")
onnx_row("IsNaN", 1, elementwise.test, FLOATS, OpCost("map", 4, 4), NO_GRADIENT, version=9)
onnx_row(
    "IsInf", 1, elementwise.test, FLOATS, OpCost("map", 4, 4), NO_GRADIENT,
    [int_("detect_negative", 1), int_("detect_positive", 1)], version=10,
)  # fmt: skip
onnx_row("PRelu", 2, elementwise.prelu, NUMBERS, OpCost("map", 4, 4), READS_OPERANDS, version=9)
onnx_row(
    "Shrink", 1, same_as_first, NUMBERS, OpCost("map", 4, 4), READS_INPUT,
    [float_("bias", 0.0), float_("lambd", 0.5)], version=9,
)  # fmt: skip
onnx_row(
    "ThresholdedRelu", 1, same_as_first, FLOATS, OpCost("map", 4, 4), READS_INPUT,
    [float_("alpha", 1.0)], version=10,
)  # fmt: skip
onnx_row("Where", 3, elementwise.where, (BOOLS, ANY), OpCost("map", 4, 4), READS_INPUT, version=9)
onnx_row(
    "Clip", (1, 3), elementwise.clip, NUMBERS, OpCost("map", 2, 2), READS_INPUT, version=11,
    constants=(1, 2),
)  # fmt: skip
onnx_row(
    "Cast", 1, elementwise.cast, ANY, OpCost("map"), READS_NOTHING,
    [("to", Attribute("dtype", required=True))], version=9,
)  # fmt: skip
# The mask is drawn again from the same seed in backward.
onnx_row(
    "Dropout", 1, elementwise.dropout, FLOATS, OpCost("random", 2, 2), READS_NOTHING,
    [float_("ratio", 0.5)], version=10, outputs=(1, 2),
)  # fmt: skip
