"""Rows of ai.graphcore, opset 1."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FLOATS,
    INTS,
    MOVE,
    NO_GRADIENT,
    NUMBERS,
    READS_EVERYTHING,
    READS_INPUT,
    READS_INPUT_AND_OUTPUT,
    READS_NOTHING,
    READS_OPERANDS,
    READS_OUTPUT,
    UNPRICED,
    VIEW,
    Attribute,
    GradientReads,
    OpCost,
    activation,
    axes,
    float_,
    graphcore_row,
    int_,
    ints,
    reduction,
)
from paddle_ipu.popart.shape_inference import (
    elementwise,
    loss,
    multi_convolution,
    nn,
    reduce,
    shaping,
    spline,
)
from paddle_ipu.popart.shape_inference.context import same_as_first

# Tanh's cycles and those of the polynomial around it. Erf is computed one element at a time.
graphcore_row("Gelu", 1, same_as_first, FLOATS, activation(11, 19), READS_INPUT)
graphcore_row("GeluErf", 1, same_as_first, FLOATS, OpCost("map", 68, 40), READS_INPUT)
graphcore_row("Log1p", 1, same_as_first, FLOATS, OpCost("map", 180, 180), READS_INPUT)
graphcore_row("Expm1", 1, same_as_first, FLOATS, OpCost("map", 4, 6), READS_OUTPUT)
graphcore_row("Swish", 1, same_as_first, FLOATS, activation(7, 13), READS_INPUT)
graphcore_row(("Round", "NearbyInt"), 1, same_as_first, FLOATS, OpCost("map", 2, 2), READS_NOTHING)
graphcore_row(("Detach", "Nop"), 1, same_as_first, ANY, VIEW, NO_GRADIENT)
graphcore_row("CopyVarUpdate", 2, shaping.copy_var_update, ANY, MOVE, NO_GRADIENT)
graphcore_row("Scale", 1, same_as_first, NUMBERS, OpCost("map"), READS_NOTHING, [float_("scale")])
graphcore_row(
    "ScaledAdd", (2, 4), elementwise.binary, NUMBERS, OpCost("map"), READS_NOTHING,
    [float_("scale0", 1.0), float_("scale1", 1.0)],
)  # fmt: skip
graphcore_row(
    "Atan2", 2, elementwise.binary, FLOATS, OpCost("map", 30, 272),
    GradientReads(inputs=(0, 1), outputs=(0,)),
)  # fmt: skip
graphcore_row(
    ("Fmod", "Remainder"), 2, elementwise.binary, NUMBERS, OpCost("map", 21, 10), READS_OPERANDS
)
graphcore_row(
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseXnor"), 2, elementwise.binary, INTS,
    OpCost("map", 4, 4), NO_GRADIENT,
)  # fmt: skip
graphcore_row("BitwiseNot", 1, same_as_first, INTS, OpCost("map", 4, 4), NO_GRADIENT)
graphcore_row(
    "GroupNormalization", 3, nn.group_normalization, FLOATS, OpCost("norm"),
    GradientReads(inputs=(0, 1), outputs=(1, 2)),
    [int_("num_groups", required=True), float_("epsilon", 1e-5)], outputs=3,
)  # fmt: skip
graphcore_row(
    "BatchNormalization", 5, nn.batch_normalization, FLOATS, OpCost("norm"),
    GradientReads(inputs=(0, 1), outputs=(3, 4)),
    [float_("epsilon", 1e-5), float_("momentum", 0.9)], outputs=(1, 5),
)  # fmt: skip
# The mask is drawn again from the same seed in backward.
graphcore_row(
    "ShapedDropout", 1, elementwise.shaped_dropout, FLOATS, OpCost("random", 2, 2), READS_NOTHING,
    [ints("shape", required=True), float_("ratio", 0.5)],
)  # fmt: skip
graphcore_row(
    "Reshape", 1, shaping.reshape_by_attribute, ANY, VIEW, READS_NOTHING,
    [ints("shape", required=True)],
)  # fmt: skip
graphcore_row(
    "Slice", 1, shaping.slice_by_attributes, ANY, VIEW, READS_NOTHING,
    [ints("ends", required=True), ints("starts", required=True), ints("axes")],
)  # fmt: skip
graphcore_row("TensorRemap", 1, same_as_first, ANY, MOVE, READS_NOTHING, [int_("remap_type", 0)])
graphcore_row(
    "Nll", 2, loss.nll, (FLOATS, ANY), OpCost("loss"), READS_OPERANDS,
    [reduction(), int_("ignoreIndex"), ("inputIsLogProbability", Attribute("bool", False))],
    name="nllloss",
)  # fmt: skip
graphcore_row(
    "L1", 1, loss.l1, FLOATS, OpCost("loss"), READS_INPUT,
    [float_("lambda"), reduction()], name="l1loss",
)  # fmt: skip
graphcore_row(
    "IdentityLoss", 1, loss.reduced_loss, NUMBERS, OpCost("loss"), READS_INPUT, [reduction()]
)
graphcore_row(
    "Reverse", 1, shaping.reverse, ANY, VIEW, READS_NOTHING, [ints("dimensions", required=True)]
)
graphcore_row(
    "Sort", 1, reduce.sort, NUMBERS, OpCost("sort", 8, 8), GradientReads(outputs=(1,)),
    [int_("axis", -1), int_("descending", 0), int_("stable", 0)], outputs=2,
)  # fmt: skip
graphcore_row(
    "ReplicatedAllReduce", 1, same_as_first, NUMBERS | BOOLS, UNPRICED, NO_GRADIENT,
    [
        ("__collectiveOperator", Attribute("enum", argument="collectiveOperator")),
        ("__collectiveCommGroup", Attribute("comm", argument="commGroup")),
    ],
)  # fmt: skip
graphcore_row(
    "ReduceMedian", 1, reduce.median, NUMBERS, OpCost("reduce", 2, 2), READS_INPUT_AND_OUTPUT,
    [axes(), int_("keepdims", 1)], outputs=2,
)  # fmt: skip
graphcore_row("Bucketize", 2, reduce.bucketize, NUMBERS, UNPRICED, NO_GRADIENT, [int_("right", 0)])
graphcore_row(
    "Ctc", 4, loss.ctc, (FLOATS, INTS), UNPRICED, READS_EVERYTHING,
    [
        reduction(), int_("blank", 0), ("outDataType", Attribute("string", "UNDEFINED")),
        ("zeroInfinity", Attribute("bool", False)),
    ], name="ctcloss",
)  # fmt: skip
graphcore_row(
    "CtcBeamSearchDecoder", 2, loss.ctc_beam_search, (FLOATS, INTS), UNPRICED, NO_GRADIENT,
    [int_("blank", 0), int_("beam_width", 100), int_("top_paths", 1)], outputs=3,
)  # fmt: skip
graphcore_row(
    "SplineBasis", 3, spline.basis, (FLOATS, INTS, INTS), UNPRICED, NO_GRADIENT,
    [int_("degree", 1)], outputs=2,
)  # fmt: skip
graphcore_row(
    "SplineWeighting", 4, spline.weighting, (FLOATS, FLOATS, FLOATS, INTS), UNPRICED, NO_GRADIENT
)
# The inputs are data, weights and bias of each convolution; an omitted bias is empty. Lists hold
# what is said of each convolution, one after another.
graphcore_row(
    "MultiConv", (2, None), multi_convolution.multi_conv, FLOATS, OpCost("conv"), READS_OPERANDS,
    [
        *(ints(name) for name in ("dilations", "inDilations", "pads", "outPads", "strides")),
        ("availableMemoryProportions", Attribute("floats")),
        ("partialsTypes", Attribute("strings")), ("planType", Attribute("string")),
        ("perConvReservedTiles", Attribute("int")), ("cycleBackOff", Attribute("float")),
        ints("enableConvDithering"),
    ], outputs=(1, None),
)  # fmt: skip
graphcore_row(
    "PrintTensor", 1, same_as_first, ANY, MOVE, READS_NOTHING,
    [
        int_("print_gradient", 1), ("title", Attribute("string", "")),
        int_("summariseThreshold", 1000), int_("edgeItems", 3), int_("maxLineWidth", 75),
        int_("digits", 8), int_("floatFormat", 0), ("separator", Attribute("string", " ")),
        ("openBracket", Attribute("string", "[")), ("closeBracket", Attribute("string", "]")),
    ],
)  # fmt: skip
