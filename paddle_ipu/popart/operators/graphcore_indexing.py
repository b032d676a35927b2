"""Rows of ai.graphcore, opset 1: scattering, and slices at places computed at run time."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    INTS,
    NO_GRADIENT,
    NUMBERS,
    READS_INDICES,
    READS_NOTHING,
    UNPRICED,
    VIEW,
    Attribute,
    OpCost,
    graphcore_row,
    int_,
    ints,
)
from paddle_ipu.popart.shape_inference import indexing

graphcore_row(
    "ScatterReduce", (2, 3), indexing.scatter_reduce, (ANY, INTS, ANY), OpCost("scatter"),
    READS_INDICES,
    [
        int_("axis_size", required=True), int_("axis", -1), ("reduction", Attribute("enum", "sum")),
        int_("group_size", 1), int_("enable_index_broadcast", 1),
    ], name="groupedscatterreduce",
)  # fmt: skip
graphcore_row(
    "GroupedGather", 2, indexing.grouped_gather, (ANY, INTS), OpCost("gather"), READS_INDICES,
    [int_("axis", 0), int_("group_size", 1)],
)  # fmt: skip
_SIZED = [ints("axes", required=True), ints("sizes", required=True)]
graphcore_row(
    "DynamicSlice", (2, 3), indexing.dynamic_slice, (ANY, INTS, ANY), OpCost("gather"),
    READS_INDICES,
    [*_SIZED, int_("noOverlap", 0)],
)  # fmt: skip
graphcore_row(
    "DynamicUpdate", 3, indexing.dynamic_update, (ANY, INTS, ANY), OpCost("scatter"), READS_INDICES,
    [*_SIZED, int_("noOverlap", 0)],
)  # fmt: skip
graphcore_row(
    "DynamicZero", 2, indexing.dynamic_zero, (ANY, INTS), OpCost("scatter"), READS_INDICES,
    _SIZED,
)  # fmt: skip
graphcore_row(
    "DynamicAdd", 3, indexing.dynamic_update, (NUMBERS, INTS, NUMBERS), OpCost("scatter"),
    READS_INDICES,
    _SIZED,
)  # fmt: skip
graphcore_row(
    "Subsample", 1, indexing.subsample, ANY, VIEW, READS_NOTHING, [ints("strides", required=True)]
)
graphcore_row(
    "SequenceSlice", 5, indexing.sequence_slice, (ANY, ANY, INTS, INTS, INTS), UNPRICED,
    NO_GRADIENT,
    [int_("zeroUnused", 0)],
)  # fmt: skip
