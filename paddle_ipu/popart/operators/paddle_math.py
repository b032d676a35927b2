"""Rows of ai.paddle_ipu: special functions, statistics, order."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, INTS, NUMBERS, family, int_, paddle_ipu_row
from paddle_ipu.popart.shape_inference import elementwise
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
