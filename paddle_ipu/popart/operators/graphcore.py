"""Rows of ai.graphcore, opset 1."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FLOATS,
    INTS,
    NUMBERS,
    Attribute,
    family,
    float_,
    graphcore_row,
    int_,
    ints,
    reduction,
)
from paddle_ipu.popart.shape_inference import elementwise, loss, nn, reduce, shaping
from paddle_ipu.popart.shape_inference.context import same_as_first

family(graphcore_row, "Gelu:1 GeluErf:1 Log1p:1 Expm1:1 Swish:1", 1, same_as_first, FLOATS)
family(graphcore_row, "Round:1 NearbyInt:1", 1, same_as_first, FLOATS)
family(graphcore_row, "Detach:1 Nop:1", 1, same_as_first, ANY, differentiable=False)
graphcore_row("CopyVarUpdate", 2, shaping.copy_var_update, ANY, differentiable=False)
graphcore_row("Scale", 1, same_as_first, NUMBERS, [float_("scale")])
graphcore_row(
    "ScaledAdd",
    (2, 4),
    elementwise.binary,
    NUMBERS,
    [float_("scale0", 1.0), float_("scale1", 1.0)],
)
family(graphcore_row, "Atan2:1", 2, elementwise.binary, FLOATS)
family(graphcore_row, "Fmod:1 Remainder:1", 2, elementwise.binary, NUMBERS)
family(
    graphcore_row,
    "BitwiseAnd:1 BitwiseOr:1 BitwiseXor:1 BitwiseXnor:1",
    2,
    elementwise.binary,
    INTS,
    differentiable=False,
)
graphcore_row("BitwiseNot", 1, same_as_first, INTS, differentiable=False)
graphcore_row(
    "GroupNormalization",
    3,
    nn.group_normalization,
    FLOATS,
    [int_("num_groups", required=True), float_("epsilon", 1e-5)],
    outputs=3,
)
graphcore_row(
    "BatchNormalization",
    5,
    nn.batch_normalization,
    FLOATS,
    [float_("epsilon", 1e-5), float_("momentum", 0.9)],
    outputs=(1, 5),
)
graphcore_row(
    "ShapedDropout",
    1,
    elementwise.shaped_dropout,
    FLOATS,
    [ints("shape", required=True), float_("ratio", 0.5)],
)
graphcore_row("Reshape", 1, shaping.reshape_by_attribute, ANY, [ints("shape", required=True)])
graphcore_row(
    "Slice",
    1,
    shaping.slice_by_attributes,
    ANY,
    [ints("ends", required=True), ints("starts", required=True), ints("axes")],
)
graphcore_row("TensorRemap", 1, same_as_first, ANY, [int_("remap_type", required=True)])
graphcore_row(
    "Nll",
    2,
    loss.nll,
    (FLOATS, ANY),
    [
        reduction(),
        int_("ignoreIndex"),
        ("inputIsLogProbability", Attribute("bool", False)),
    ],
    name="nllloss",
)
graphcore_row("L1", 1, loss.reduced_loss, FLOATS, [float_("lambda"), reduction()], name="l1loss")
graphcore_row("IdentityLoss", 1, loss.reduced_loss, FLOATS, [reduction()])
graphcore_row("Reverse", 1, shaping.reverse, ANY, [ints("dimensions", required=True)])
graphcore_row(
    "Sort",
    1,
    reduce.sort,
    NUMBERS,
    [int_("axis", -1), int_("descending", 0), int_("stable", 0)],
    outputs=2,
)
graphcore_row(
    "ReplicatedAllReduce",
    1,
    same_as_first,
    NUMBERS | BOOLS,
    [
        (
            "__collectiveOperator",
            Attribute("enum", argument="collectiveOperator"),
        ),
        ("__collectiveCommGroup", Attribute("comm", argument="commGroup")),
    ],
    differentiable=False,
)
