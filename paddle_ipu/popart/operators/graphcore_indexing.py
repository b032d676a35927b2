"""Rows of ai.graphcore, opset 1: scattering, and slices at places computed at run time."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import ANY, INTS, NUMBERS, Attribute, graphcore_row, int_, ints
from paddle_ipu.popart.shape_inference import indexing

graphcore_row(
    "ScatterReduce",
    (2, 3),
    indexing.scatter_reduce,
    (ANY, INTS, ANY),
    [
        int_("axis_size", required=True),
        int_("axis", -1),
        ("reduction", Attribute("enum", "sum")),
        int_("group_size", 1),
        int_("enable_index_broadcast", 1),
    ],
    name="groupedscatterreduce",
)
graphcore_row(
    "GroupedGather",
    2,
    indexing.grouped_gather,
    (ANY, INTS),
    [int_("axis", 0), int_("group_size", 1)],
)
_SIZED = [ints("axes", required=True), ints("sizes", required=True)]
graphcore_row(
    "DynamicSlice",
    (2, 3),
    indexing.dynamic_slice,
    (ANY, INTS, ANY),
    [*_SIZED, int_("noOverlap", 0)],
)
graphcore_row(
    "DynamicUpdate",
    3,
    indexing.dynamic_update,
    (ANY, INTS, ANY),
    [*_SIZED, int_("noOverlap", 0)],
)
graphcore_row("DynamicZero", 2, indexing.dynamic_zero, (ANY, INTS), _SIZED)
graphcore_row("DynamicAdd", 3, indexing.dynamic_update, (NUMBERS, INTS, NUMBERS), _SIZED)
graphcore_row("Subsample", 1, indexing.subsample, ANY, [ints("strides", required=True)])
graphcore_row(
    "SequenceSlice",
    5,
    indexing.sequence_slice,
    (ANY, ANY, INTS, INTS, INTS),
    [int_("zeroUnused", 0)],
    differentiable=False,
)
