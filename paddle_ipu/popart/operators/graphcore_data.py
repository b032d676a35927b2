"""Rows of ai.graphcore: making, laying out and scattering data."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FLOATS,
    MOVE,
    NO_GRADIENT,
    NUMBERS,
    READS_EVERYTHING,
    READS_NOTHING,
    UNPRICED,
    Attribute,
    OpCost,
    float_,
    graphcore_row,
    int_,
    ints,
)
from paddle_ipu.popart.shape_inference import images, shaping
from paddle_ipu.popart.shape_inference.context import same_as_first

_NUMBER = Attribute("enum", required=True)

graphcore_row(
    "DepthToSpace", 1, images.depth_to_space, ANY, MOVE, READS_NOTHING,
    [int_("blocksize", required=True), ("mode", Attribute("string", "DCR"))],
)  # fmt: skip
graphcore_row(
    "IncrementMod", 1, same_as_first, NUMBERS, OpCost("map", 4, 4), NO_GRADIENT,
    [float_("increment"), float_("modulus")],
)  # fmt: skip
graphcore_row(
    "Init", 0, shaping.init, ANY, MOVE, NO_GRADIENT,
    [
        ints("shape", required=True), ("data_type", _NUMBER), ("init_type", _NUMBER),
        int_("batch_axis", -1),
    ],
)  # fmt: skip
graphcore_row(
    "NormalizeImage", 3, images.normalize_image, NUMBERS, UNPRICED, NO_GRADIENT,
    [float_("scale", 1.0)], name="normalize_image",
)  # fmt: skip
graphcore_row(
    "ReplicatedReduceScatter", 1, shaping.shard, FLOATS | NUMBERS | BOOLS, UNPRICED,
    READS_EVERYTHING,
    [
        ("__collectiveOperator", Attribute("enum", argument="collectiveOperator")),
        ("__collectiveCommGroup", Attribute("comm", argument="commGroup")),
    ],
    by_replicas=True,
)  # fmt: skip
