"""Cases of operators that do something on the host."""

from __future__ import annotations

from typing import Any

import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import CaseTable, normal, uniform

TABLE = CaseTable()
_add = TABLE.add


def _asserted(x: Any) -> Any:
    paddle.static.nn.control_flow.Assert((x < 100.0).all(), [x])
    return x * 2


_add("assert", _asserted, gradient=("x",), x=normal(3, 4))
_add(
    "assert",
    lambda x, y, v: [
        F.gaussian_nll_loss(x, y, v),
        F.gaussian_nll_loss(x, y, v, full=True, reduction="sum"),
    ],
    gradient=("x",),
    label="Gaussian likelihood",
    x=normal(3, 4),
    y=normal(3, 4, seed=1),
    v=uniform(3, 4),
)
_add(
    "print",
    lambda x: [
        paddle.static.Print(x * 2, message="values", summarize=3, print_phase="forward") * 2,
        paddle.static.Print(x * 3, summarize=-1),
    ],
    gradient=("x",),
    x=normal(3, 4),
)
TABLE.refuse(
    "print",
    lambda x: paddle.static.Print(x, first_n=2) * 2,
    "first_n is not supported",
    x=normal(3),
)
TABLE.refuse(
    "print",
    lambda x: paddle.static.Print(x, print_phase="backward") * 2,
    "print_phase='backward' is not supported",
    x=normal(3),
)
