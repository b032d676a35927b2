"""Rows of ai.paddle_ipu: special functions, statistics, order."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    NO_GRADIENT,
    NUMBERS,
    READS_EVERYTHING,
    UNPRICED,
    OpCost,
    float_,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import elementwise, statistics
from paddle_ipu.popart.shape_inference.context import same_as_first

paddle_ipu_row(
    ("Digamma", "Lgamma", "ErfInv", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e"), 1,
    same_as_first, FLOATS, UNPRICED, READS_EVERYTHING,
)  # fmt: skip
paddle_ipu_row(
    "Polygamma", 1, same_as_first, FLOATS, UNPRICED, READS_EVERYTHING, [int_("n", required=True)]
)
paddle_ipu_row("Gammaincc", 2, elementwise.binary, FLOATS, UNPRICED, READS_EVERYTHING)
paddle_ipu_row("CopySign", 2, elementwise.binary, NUMBERS, UNPRICED, READS_EVERYTHING)
paddle_ipu_row("NextAfter", 2, elementwise.binary, FLOATS, UNPRICED, NO_GRADIENT)
paddle_ipu_row(
    ("LeftShift", "RightShift"), 2, elementwise.binary, INTS, OpCost("map", 4, 4), NO_GRADIENT,
    [int_("arithmetic", 1)],
)  # fmt: skip
paddle_ipu_row(
    ("CumMax", "CumMin"), 1, statistics.scan, NUMBERS, UNPRICED, READS_EVERYTHING,
    [int_("axis", -1)], outputs=2,
)  # fmt: skip
_DIRECTION = [int_("axis", -1), int_("exclusive", 0), int_("reverse", 0)]
paddle_ipu_row("CumProd", 1, same_as_first, NUMBERS, UNPRICED, READS_EVERYTHING, _DIRECTION)
paddle_ipu_row("LogCumSumExp", 1, same_as_first, FLOATS, UNPRICED, READS_EVERYTHING, _DIRECTION)
paddle_ipu_row("Mode", 1, statistics.last_axis, NUMBERS, UNPRICED, READS_EVERYTHING, outputs=2)
paddle_ipu_row(
    "Median", 1, statistics.median, NUMBERS, UNPRICED, READS_EVERYTHING,
    [int_("ignore_nan", 0), int_("average", 1)], outputs=2,
)  # fmt: skip
paddle_ipu_row(
    "SearchSorted", 2, statistics.search, NUMBERS, UNPRICED, NO_GRADIENT, [int_("right", 0)]
)
paddle_ipu_row(
    "Histogram", (1, 2), statistics.histogram, (NUMBERS, FLOATS), UNPRICED, NO_GRADIENT,
    [int_("bins", 100), float_("min", 0.0), float_("max", 0.0), int_("density", 0)],
)  # fmt: skip
