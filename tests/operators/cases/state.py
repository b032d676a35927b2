"""Cases of operators that write over a variable; who reads it afterwards reads what was written."""

from __future__ import annotations

from typing import Any

import paddle

from tests.operators.operator_case import CaseTable, Since, integers, normal

TABLE = CaseTable()
_add = TABLE.add


def _counted(x: Any) -> list[Any]:
    before = paddle.scale(x, 2.0)
    after = paddle.increment(x)
    return [before, paddle.scale(after, 3.0), paddle.scale(x, 4.0)]


_add("increment", _counted, label="by one", x=normal(1))
_add(
    "increment",
    lambda x: paddle.assign(paddle.increment(x, value=-2.5)),
    label="by a number",
    x=normal(1),
)
_add(
    "increment",
    lambda n: paddle.assign(paddle.increment(n, value=3)),
    label="of a count",
    n=integers(1),
)


def _assigned(x: Any, y: Any) -> list[Any]:
    copy = paddle.scale(y, 1.5)
    before = paddle.scale(copy, 2.0)
    paddle.assign(x, output=copy)
    return [before, paddle.scale(copy, 3.0)]


_PIR = Since("3.0", "a ProgramDesc has no operator of its own for it, but writes a variable again")
_add("assign_out_", _assigned, since=_PIR, x=normal(2, 3), y=normal(2, 3, seed=1))
_add(
    "assign_out_",
    _assigned,
    label="whole numbers",
    since=_PIR,
    x=integers(4),
    y=integers(4, seed=1),
)
