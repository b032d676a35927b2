"""Rows of ai.paddle_ipu: scattering."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    INTS,
    READS_EVERYTHING,
    UNPRICED,
    Attribute,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import indexing

paddle_ipu_row(
    "PutAlongAxis", 3, indexing.put_along_axis, (ANY, INTS, ANY), UNPRICED, READS_EVERYTHING,
    [
        int_("axis", required=True), ("reduce", Attribute("string", "assign")),
        int_("include_self", 1), int_("rounds_down", 0),
    ],
)  # fmt: skip
