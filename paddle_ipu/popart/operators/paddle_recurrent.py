"""Rows of ai.paddle_ipu: recurrent layers over sequences of different lengths."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    READS_EVERYTHING,
    Attribute,
    OpCost,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import recurrent

paddle_ipu_row(
    "Recurrent", (6, 7), recurrent.masked, (FLOATS, FLOATS, FLOATS, FLOATS, INTS, FLOATS),
    OpCost("recurrent", 6, 12), READS_EVERYTHING,
    [("mode", Attribute("string", required=True)), int_("reverse", 0)], outputs=(2, 3),
)  # fmt: skip
