"""Rows of ai.graphcore, opset 1: scattering and picking."""

from __future__ import annotations

from paddle_ipu.popart.enums import ScatterReduction
from paddle_ipu.popart.op_schema import ANY, INTS, Attribute, graphcore_row, int_
from paddle_ipu.popart.shape_inference import indexing

graphcore_row(
    "ScatterReduce",
    (2, 3),
    indexing.scatter_reduce,
    (ANY, INTS, ANY),
    [
        int_("axis_size", required=True),
        int_("axis", -1),
        ("reduction", Attribute("enum", ScatterReduction.Sum)),
        int_("enable_index_broadcast", 1),
    ],
)
