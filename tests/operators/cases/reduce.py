"""Cases of reductions and searches: axes, kept dimensions, ties, zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

from tests.operators.cases import by_operator
from tests.operators.compare import Tolerance
from tests.operators.operator_case import (
    CaseTable,
    Since,
    bools,
    floats,
    integers,
    normal,
    uniform,
)

TABLE = CaseTable()
_add = TABLE.add

_TIES = Since("3.1", "the kernel gives every one of several largest the whole gradient")
_NAN = (
    Since("3.1", "the kernel gives NaN no gradient"),
    Since("3.0", "the kernel overlooks NaN"),
)
"""Of max and min, and of amax and amin."""


def _reduction(op: str, function: Callable[..., Any]) -> None:
    """Over everything, over a negative axis, over two with kept dimensions."""
    _add(
        op,
        lambda x, scalar: [
            function(x),
            function(x, axis=-1),
            function(x, axis=[0, 2], keepdim=True),
            function(scalar),
        ],
        gradient=("x",),
        x=uniform(2, 3, 4),
        scalar=np.asarray(3.0, np.float32),
    )


for _op, _function in (
    ("sum", paddle.sum),
    ("mean", paddle.mean),
    ("max", paddle.max),
    ("min", paddle.min),
    ("amax", paddle.amax),
    ("amin", paddle.amin),
    ("prod", paddle.prod),
    ("logsumexp", paddle.logsumexp),
):
    _reduction(_op, _function)
for _op, _function in (
    ("max", paddle.max),
    ("min", paddle.min),
    ("amax", paddle.amax),
    ("amin", paddle.amin),
):
    _add(
        _op,
        lambda x, f=_function: [f(x, axis=0), f(x)],
        gradient=("x",),
        label="ties",
        since=_TIES if _op in ("max", "min") else None,
        x=np.asarray([[1.0, 2.0, 0.0], [1.0, -1.0, 2.0], [0.5, 2.0, -1.0]], np.float32),
    )
for _op, _function in (
    ("max", paddle.max),
    ("min", paddle.min),
    ("amax", paddle.amax),
    ("amin", paddle.amin),
):
    _add(
        _op,
        lambda x, f=_function: [f(x, axis=1), f(x, axis=1, keepdim=True)],
        gradient=("x",),
        label="NaN",
        since=_NAN[_op[0] == "a"],
        x=floats([1.0, np.nan, 2.0], [np.inf, -np.inf, np.inf], [np.nan, np.nan, np.inf]),
    )
_add("prod", paddle.prod, gradient=("x",), label="zeros", x=floats(2.0, 0.0, 3.0, -1.0))
_add(
    "sum",
    lambda i, b, n: [paddle.sum(i), paddle.sum(b), paddle.sum(n, axis=0)],
    label="integers",
    i=integers(2, 3, dtype="int32"),
    b=bools(2, 3),
    n=integers(2, 3),
)
_add(
    "max",
    lambda i: [paddle.max(i), paddle.min(i, axis=0), paddle.prod(i)],
    label="integers",
    i=integers(2, 3, low=1, dtype="int32"),
)
_add(
    "logsumexp",
    lambda x: paddle.logsumexp(x, axis=-1),
    gradient=("x",),
    label="large",
    tolerance=Tolerance(1e-4, "Paddle's gradient is exp(x - y), and y near 1000 is rounded"),
    x=np.asarray([[1000.0, 1000.0, -5.0], [-1000.0, -1001.0, -1000.0]], np.float32),
)
for _op, _function in (("any", paddle.any), ("all", paddle.all)):
    _add(
        _op,
        lambda b, f=_function: [f(b), f(b, axis=1), f(b, axis=[0, 1], keepdim=True)],
        b=np.asarray([[True, False, True], [True, True, True], [False, False, False]]),
    )

for _op, _function in (("argmax", paddle.argmax), ("argmin", paddle.argmin)):
    _add(
        _op,
        lambda x, i, f=_function: [
            f(x),
            f(x, axis=-1),
            f(x, axis=0, keepdim=True),
            f(x, keepdim=True),
            f(x, axis=1, dtype="int32"),
            f(i, axis=0),
        ],
        x=np.asarray([[1.0, 3.0, 3.0], [3.0, -1.0, -1.0]], np.float32),
        i=integers(3, 2, dtype="int32"),
    )
_add(
    "topk",
    lambda x: [
        *paddle.topk(x, 2),
        *paddle.topk(x, 2, axis=0),
        *paddle.topk(x, 1, largest=False),
    ],
    gradient=("x",),
    x=normal(3, 4),
)
_add(
    "cumsum",
    lambda x, i: [
        paddle.cumsum(x),
        paddle.cumsum(x, axis=1),
        paddle.cumsum(x, axis=-2),
        paddle.cumsum(i, axis=0),
    ],
    gradient=("x",),
    x=normal(2, 3),
    i=integers(4, dtype="int32"),
)
_add(
    "argsort",
    lambda x: [
        paddle.sort(x),
        paddle.argsort(x, axis=0),
        paddle.sort(x, axis=0, descending=True),
        paddle.argsort(x, descending=True),
    ],
    gradient=("x",),
    x=normal(3, 4),
)

_add("sqrt", lambda x: paddle.std(x), gradient=("x",), label="standard deviation", x=normal(3, 4))

# Attributes beside their defaults, and bounds.
_add(
    "cumsum",
    lambda x, y: [
        paddle.cumsum(x),
        by_operator.cumsum(x, -1, True, True),
        by_operator.cumsum(y, 0, True, False),
    ],
    gradient=("x", "y"),
    label="one number",
    since=Since("3.0", "the axis of a single number is refused"),
    x=normal(),
    y=normal(1, 1),
)
_add(
    "cumsum",
    lambda x: [
        by_operator.cumsum(x, 1, True, False),
        by_operator.cumsum(x, 0, False, True),
        by_operator.cumsum(x, -1, True, True),
    ],
    gradient=("x",),
    label="directions",
    x=normal(3, 4),
)
_add(
    "topk",
    lambda x, i: [
        *paddle.topk(x, 2, axis=-2, largest=False),
        paddle.sort(paddle.topk(x, 3, sorted=False)[0]),
        *paddle.topk(i, 1),
    ],
    gradient=("x",),
    label="attributes",
    x=normal(3, 4),
    i=np.asarray([[3, 1, 2], [7, 9, 8]], np.int32),
)
_add(
    "sum",
    lambda x, i, b: [
        paddle.sum(x, dtype="int32"),
        paddle.sum(i, axis=1, dtype="float32"),
        paddle.sum(b, axis=0, keepdim=True),
    ],
    label="dtypes",
    x=floats(1.0, 2.0, 3.0),
    i=integers(2, 3, dtype="int32"),
    b=bools(3, 2),
)
_add(
    "mean",
    lambda i: [paddle.mean(i), paddle.mean(i, axis=0)],
    label="integers",
    since=Since("3.0", "the function takes no integers"),
    i=np.asarray([[3, -8], [4, 1]], np.int32),
)
_add(
    "logsumexp",
    lambda x: [paddle.logsumexp(x, axis=1), paddle.logsumexp(x, axis=[0, 1], keepdim=True)],
    label="infinity",
    x=np.asarray([[-np.inf, 0.0, 1.0], [-np.inf, -np.inf, 2.0]], np.float32),
)
_add(
    "prod",
    lambda x: [paddle.prod(x, axis=1), paddle.prod(x, axis=0, keepdim=True)],
    gradient=("x",),
    label="axes",
    x=uniform(3, 4) * np.asarray([1, -1, 1, -1], np.float32),
)
_add(
    "argmax",
    lambda x, i: [paddle.argmax(x, axis=1), paddle.argmax(i), paddle.argmax(i, axis=-1)],
    label="extremes",
    x=np.asarray([[-np.inf, np.inf, np.inf], [-np.inf, -np.inf, -np.inf]], np.float32),
    i=np.asarray([[-5, -5, 3], [3, 2, 3]], np.int64),
)
