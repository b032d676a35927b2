"""Rows of ai.paddle_ipu: special functions, statistics, order."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, INTS, NUMBERS, family, float_, int_, paddle_ipu_row
from paddle_ipu.popart.shape_inference import elementwise, statistics
from paddle_ipu.popart.shape_inference.context import same_as_first

family(
    paddle_ipu_row,
    "Digamma:1 Lgamma:1 ErfInv:1 BesselI0:1 BesselI0e:1 BesselI1:1 BesselI1e:1",
    1,
    same_as_first,
    FLOATS,
)
paddle_ipu_row("Polygamma", 1, same_as_first, FLOATS, [int_("n", required=True)])
paddle_ipu_row("Gammaincc", 2, elementwise.binary, FLOATS)
paddle_ipu_row("CopySign", 2, elementwise.binary, NUMBERS)
paddle_ipu_row("NextAfter", 2, elementwise.binary, FLOATS, differentiable=False)
family(
    paddle_ipu_row,
    "LeftShift:1 RightShift:1",
    2,
    elementwise.binary,
    INTS,
    [int_("arithmetic", 1)],
    differentiable=False,
)
family(
    paddle_ipu_row, "CumMax:1 CumMin:1", 1, statistics.scan, NUMBERS, [int_("axis", -1)], outputs=2
)
_DIRECTION = [int_("axis", -1), int_("exclusive", 0), int_("reverse", 0)]
paddle_ipu_row("CumProd", 1, same_as_first, NUMBERS, _DIRECTION)
paddle_ipu_row("LogCumSumExp", 1, same_as_first, FLOATS, _DIRECTION)
paddle_ipu_row("Mode", 1, statistics.last_axis, NUMBERS, outputs=2)
paddle_ipu_row(
    "Median",
    1,
    statistics.median,
    NUMBERS,
    [int_("ignore_nan", 0), int_("average", 1)],
    outputs=2,
)
paddle_ipu_row(
    "SearchSorted", 2, statistics.search, NUMBERS, [int_("right", 0)], differentiable=False
)
paddle_ipu_row(
    "Histogram",
    (1, 2),
    statistics.histogram,
    (NUMBERS, FLOATS),
    [int_("bins", 100), float_("min", 0.0), float_("max", 0.0), int_("density", 0)],
    differentiable=False,
)
