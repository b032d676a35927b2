"""Rows of ai.graphcore: operators that are there for what they do on the host."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    MOVE,
    NO_GRADIENT,
    READS_NOTHING,
    UNPRICED,
    Attribute,
    graphcore_row,
    int_,
)
from paddle_ipu.popart.shape_inference import effects
from paddle_ipu.popart.shape_inference.context import same_as_first

graphcore_row("Abort", (0, 1), effects.abort, BOOLS, UNPRICED, NO_GRADIENT, outputs=0)
graphcore_row(
    "PrintTensor", 1, same_as_first, ANY, MOVE, READS_NOTHING,
    [
        int_("print_gradient", 1), ("title", Attribute("string", "")),
        int_("summariseThreshold", 1000), int_("edgeItems", 3), int_("maxLineWidth", 75),
        int_("digits", 8), int_("floatFormat", 0), ("separator", Attribute("string", " ")),
        ("openBracket", Attribute("string", "[")), ("closeBracket", Attribute("string", "]")),
    ],
)  # fmt: skip
