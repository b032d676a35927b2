"""Rows of ai.graphcore: making, laying out and scattering data."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FLOATS,
    NUMBERS,
    Attribute,
    float_,
    graphcore_row,
    ints,
)
from paddle_ipu.popart.op_schema import int_ as integer
from paddle_ipu.popart.shape_inference import images, shaping
from paddle_ipu.popart.shape_inference.context import same_as_first

_NUMBER = Attribute("enum", required=True)

graphcore_row(
    "DepthToSpace",
    1,
    images.depth_to_space,
    ANY,
    [integer("blocksize", required=True), ("mode", Attribute("string", "DCR"))],
)
graphcore_row(
    "IncrementMod",
    1,
    same_as_first,
    NUMBERS,
    [float_("increment"), float_("modulus")],
    differentiable=False,
)
graphcore_row(
    "Init",
    0,
    shaping.init,
    ANY,
    [
        ints("shape", required=True),
        ("data_type", _NUMBER),
        ("init_type", _NUMBER),
        integer("batch_axis", -1),
    ],
    differentiable=False,
)
graphcore_row(
    "NormalizeImage",
    3,
    images.normalize_image,
    NUMBERS,
    [float_("scale")],
    name="normalize_image",
    differentiable=False,
)
graphcore_row(
    "ReplicatedReduceScatter",
    1,
    shaping.shard,
    FLOATS | NUMBERS | BOOLS,
    [
        ("__collectiveOperator", Attribute("enum", argument="collectiveOperator")),
        ("__collectiveCommGroup", Attribute("comm", argument="commGroup")),
    ],
)
