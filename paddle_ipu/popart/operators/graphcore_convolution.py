"""Rows of ai.graphcore: several convolutions in one operator."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    READS_OPERANDS,
    Attribute,
    OpCost,
    graphcore_row,
    ints,
)
from paddle_ipu.popart.shape_inference import multi_convolution

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
