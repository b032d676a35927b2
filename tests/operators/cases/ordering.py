"""Cases of running extremes and products, of ranks and of searches: ties, NaN, zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.cases import by_operator
from tests.operators.operator_case import CaseTable, Since, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

for _op, _function in (("cummax", paddle.cummax), ("cummin", paddle.cummin)):
    _add(
        _op,
        lambda x, i, f=_function: [
            *f(x),
            *f(x, axis=1),
            *f(x, axis=-2, dtype="int32"),
            *f(i, axis=0),
        ],
        gradient=("x",),
        x=normal(3, 4),
        i=integers(4, 2, dtype="int32"),
    )
    _add(
        _op,
        lambda x, f=_function: [*f(x, axis=1)],
        gradient=("x",),
        label="ties",
        x=np.asarray([[1.0, 2.0, 2.0, 0.0, 2.0], [0.0, 0.0, -1.0, -1.0, 0.0]], np.float32),
    )
    _add(
        _op,
        lambda x, f=_function: [*f(x, axis=0)],
        label="NaN",
        x=floats(1.0, np.nan, 3.0, np.nan, 0.0),
    )
_SCALAR = np.asarray(2.5, np.float32)
for _op, _function in (
    ("cummax", lambda x: [*paddle.cummax(x, axis=0)]),
    ("cummin", lambda x: [*paddle.cummin(x, axis=0)]),
    ("kthvalue", lambda x: [*paddle.kthvalue(x, 1)]),
    ("mode", lambda x: [*paddle.mode(x)]),
):
    # Paddle's gradient of a scalar fails, or is 1 whatever comes in.
    _add(_op, _function, label="scalar", x=_SCALAR)
_add("cumprod", lambda x: paddle.cumprod(x, 0), gradient=("x",), label="scalar", x=_SCALAR)
_add(
    "cumprod",
    lambda x, i: [paddle.cumprod(x, 0), paddle.cumprod(x, -1), paddle.cumprod(i, 1)],
    gradient=("x",),
    x=uniform(3, 4),
    i=integers(2, 3, low=-3, dtype="int32"),
)
_add(
    "cumprod",
    lambda x: paddle.cumprod(x, 1),
    gradient=("x",),
    label="zeros",
    x=np.asarray([[2.0, 0.0, 3.0, -1.0], [0.0, 5.0, 0.0, 2.0], [1.5, 2.0, 3.0, 0.0]], np.float32),
)
for _label, _exclusive, _reverse in (
    ("exclusive", True, False),
    ("reverse", False, True),
    ("exclusive and reverse", True, True),
):
    _add(
        "cumprod",
        lambda x, e=_exclusive, r=_reverse: paddle._C_ops.cumprod(x, 1, e, r),
        gradient=("x",),
        label=_label,
        since=Since("3.0", "the operator has neither attribute"),
        x=np.asarray([[2.0, 0.5, 3.0, -1.0], [0.0, 5.0, 0.5, 2.0]], np.float32),
    )
    _add(
        "logcumsumexp",
        lambda x, e=_exclusive, r=_reverse: by_operator.logcumsumexp(x, 1, e, r),
        label=_label,
        x=normal(3, 4),
    )
_add(
    "logcumsumexp",
    lambda x: [
        paddle.logcumsumexp(x),
        paddle.logcumsumexp(x, axis=0),
        paddle.logcumsumexp(x, axis=-1),
    ],
    gradient=("x",),
    x=normal(3, 4),
)
_add(
    "logcumsumexp",
    lambda x, y: [
        paddle.logcumsumexp(x),
        by_operator.logcumsumexp(x, -1, True, False),
        by_operator.logcumsumexp(y, 0, True, False),
    ],
    label="one number",
    since=Since("3.0", "the axis of a single number is refused"),
    x=normal(),
    y=normal(1, 1),
)
_add(
    "logcumsumexp",
    lambda x: paddle.logcumsumexp(x, axis=0),
    label="large",
    x=floats(-np.inf, 1000.0, 999.0, -1000.0, 1001.0),
)
_add(
    "kthvalue",
    lambda x, i: [
        *paddle.kthvalue(x, 2),
        *paddle.kthvalue(x, 3, axis=0, keepdim=True),
        *paddle.kthvalue(x, 1, axis=-2),
        *paddle.kthvalue(i, 2),
    ],
    gradient=("x",),
    x=normal(3, 4),
    i=np.asarray([[3, 1, 2], [9, 7, 8]], np.int32),
)
_add(
    "mode",
    lambda x, i: [
        *paddle.mode(x),
        *paddle.mode(x, axis=0),
        *paddle.mode(x, axis=-2, keepdim=True),
        *paddle.mode(i),
    ],
    gradient=("x",),
    x=np.asarray([[2.0, 1.0, 1.0, 2.0], [3.0, 1.0, 3.0, 3.0], [2.0, 5.0, 4.0, 3.0]], np.float32),
    i=integers(3, 6, high=3, dtype="int32"),
)


def _searches(ordered: Any, values: Any) -> list[Any]:
    return [
        paddle.searchsorted(ordered, values),
        paddle.searchsorted(ordered, values, right=True),
        paddle.searchsorted(ordered, values, out_int32=True),
    ]


_add(
    "searchsorted",
    _searches,
    ordered=floats(-1.0, 0.0, 0.0, 2.0, 3.5),
    values=np.asarray([[0.0, -2.0, 9.0], [3.5, 1.0, -1.0]], np.float32),
)
_add(
    "searchsorted",
    _searches,
    label="rows",
    ordered=np.sort(integers(2, 3, 5, high=9, dtype="int32"), axis=-1),
    values=integers(2, 3, 4, high=9, dtype="int32", seed=1),
)
_add(
    "searchsorted",
    lambda x, bounds: [paddle.bucketize(x, bounds), paddle.bucketize(x, bounds, right=True)],
    label="buckets",
    x=normal(3, 4),
    bounds=floats(-1.0, -0.5, 0.0, 0.5),
)
