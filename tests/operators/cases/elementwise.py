"""Cases of arithmetic, comparisons and logic: broadcasting, dtypes, ties, zeros, NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

from tests.operators.operator_case import (
    Array,
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

_TIES = Since("3.1", "the kernel gives a tie's whole gradient to one side")
_SPECIAL = floats(-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan)


def _arithmetic(op: str, function: Callable[..., Any]) -> None:
    """Broadcasting both ways with gradients, and int32 beside it."""
    _add(
        op,
        lambda x, y, i, j: [function(x, y), function(i, j)],
        gradient=("x", "y"),
        x=uniform(2, 3, 4),
        y=uniform(3, 1, seed=1),
        i=integers(2, 3, low=-4, dtype="int32"),
        j=integers(3, low=1, dtype="int32", seed=1),
    )


_arithmetic("add", paddle.add)
_arithmetic("subtract", paddle.subtract)
_arithmetic("multiply", paddle.multiply)
_arithmetic("maximum", paddle.maximum)
_arithmetic("minimum", paddle.minimum)
_arithmetic("fmax", paddle.fmax)
_arithmetic("fmin", paddle.fmin)
_add(
    "add",
    lambda x, y: x + y,
    gradient=("x", "y"),
    label="scalars",
    x=floats(2.0),
    y=np.asarray(3.0, np.float32),
)
_add("add", lambda i, j: i + j, label="int64", i=integers(3), j=integers(3, seed=1))
_add("multiply", lambda i, j: i * j, label="int64", i=integers(3), j=integers(3, seed=1))

for _op, _function in (
    ("maximum", paddle.maximum),
    ("minimum", paddle.minimum),
    ("fmax", paddle.fmax),
    ("fmin", paddle.fmin),
):
    _add(
        _op,
        lambda x, y, f=_function: f(x, y),
        gradient=("x", "y"),
        label="ties",
        since=_TIES if _op in ("maximum", "minimum") else None,
        x=floats(1.0, 2.0, -0.5, 0.0),
        y=floats(1.0, 3.0, -0.5, 0.0),
    )
    _add(
        _op,
        lambda x, y, f=_function: f(x, y),
        label="NaN",
        x=_SPECIAL,
        y=floats(np.nan, 0.0, np.nan, 2.0, 1.0, np.nan),
    )

_add(
    "divide",
    lambda x, y: x / y,
    gradient=("x", "y"),
    label="squares of divisors beyond the range",
    x=np.asarray([0.0, 1e-20, -3e-25, 2e30, 5.0], np.float32),
    y=np.asarray([1.2e-38, 1e-20, 1e-25, -1e30, 2.0], np.float32),
)
_add(
    "divide",
    lambda x, y, limits: [x / y, limits / paddle.zeros([1])],
    gradient=("x", "y"),
    x=normal(2, 3),
    y=uniform(3, low=0.5),
    limits=_SPECIAL,
)
_add(
    "divide",
    lambda i, j: [i / j, paddle.divide(i, j)],
    label="integers",
    i=integers(4),
    j=integers(4, low=1, seed=1),
)
_WHOLE = np.asarray([-7, 7, -7, 7, -6, 0, -1, 2147483647, -2147483648], np.int32)
_DIVISORS = np.asarray([2, -2, -2, 2, 3, -3, 5, 7, 3], np.int32)
_add(
    "floor_divide",
    lambda x, y, i, j: [paddle.floor_divide(x, y), paddle.floor_divide(i, j)],
    x=floats(-7.0, -6.0, 6.0, 7.0, 0.0, -7.5, 7.5),
    y=floats(2.0, 2.0, -4.0, 2.0, 3.0, -2.0, -2.0),
    i=_WHOLE,
    j=_DIVISORS,
)
_add(
    "floor_divide", paddle.floor_divide, label="int64", x=integers(6, low=-9), y=integers(6, low=1)
)
_add(
    "floor_divide",
    paddle.floor_divide,
    label="rounded quotients",
    since=Since("3.2", "the kernel rounds the quotient before it takes the floor"),
    x=floats(1.0, -1.0, 0.6, 5.0, -5.0),
    y=floats(0.1, 0.1, 0.2, 0.0, np.inf),
)
_add("remainder", paddle.mod, label="signs", x=_WHOLE, y=_DIVISORS)
_add(
    "trunc_divide",
    lambda x, y, i, j: [paddle._C_ops.trunc_divide(x, y), paddle._C_ops.trunc_divide(i, j)],
    since=Since("3.3", "the operator does not exist"),
    x=floats(-7.0, -6.0, 6.0, 7.0, 0.0, -7.5, 7.5),
    y=floats(2.0, 2.0, -4.0, 2.0, 3.0, -2.0, 2.0),
    i=_WHOLE,
    j=_DIVISORS,
)
_add(
    "remainder",
    lambda x, y, i, j: [paddle.mod(x, y), paddle.mod(i, j)],
    x=floats(-7.5, -6.0, 5.0, 7.0, 0.0),
    y=floats(2.0, 4.0, -3.0, 2.5, 3.0),
    i=integers(6, low=-5, dtype="int32"),
    j=integers(6, low=1, dtype="int32", seed=1),
)
_add(
    "remainder",
    paddle.mod,
    gradient=("x", "y"),
    label="gradient",
    since=Since("3.0", "the operator has no gradient"),
    x=floats(-7.5, -6.0, 5.0, 7.0, 0.0),
    y=floats(2.0, 4.0, -3.0, 2.5, 3.0),
)
_add(
    "elementwise_pow",
    paddle.pow,
    gradient=("x", "y"),
    x=floats(0.5, 1.0, 2.0, 3.0),
    y=floats(2.0, -1.0, 0.5, 0.0),
)
_add(
    "elementwise_pow",
    paddle.pow,
    gradient=("x", "y"),
    label="infinite slopes",
    x=floats(0.0, -0.0, 0.0, -2.0, np.inf, np.inf, 1.0, np.nan, 2.0),
    y=floats(-88.0, -88.0, -0.5, -3.0, 2.0, 0.0, np.inf, 1.0, np.nan),
)
_add(
    "elementwise_pow",
    paddle.pow,
    gradient=("x", "y"),
    label="powers of zero",
    since=Since("3.1", "the slope in the exponent is 0 times the logarithm of 0"),
    x=floats(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, np.nan),
    y=floats(0.0, 0.5, 1.0, 2.0, np.inf, np.nan, 0.0),
)
_add(
    "elementwise_pow",
    paddle.pow,
    label="integers",
    x=np.asarray([-3, 2, 0, 0, 5, 1, -1, -1, 7, 3], np.int32),
    y=np.asarray([3, -1, 0, 3, 13, -4, -3, -4, 11, 19], np.int32),
)
_add(
    "pow",
    lambda x: [paddle.pow(x, y) for y in (2, 3, 0.5, -1.0, 1.0, 0.0, 2.5)],
    gradient=("x",),
    x=floats(0.5, 1.0, 2.0),
)
_add(
    "pow",
    lambda x: [paddle.pow(x, 2), paddle.pow(x, 3)],
    gradient=("x",),
    label="zero",
    x=floats(-1.0, 0.0, 1.0),
)
_add("pow", lambda i: paddle.pow(i, 2), label="integers", i=integers(4, low=-3, dtype="int32"))
_add(
    "scale",
    lambda x, i, n: [
        x * 2.5 + 1.0,
        paddle.scale(x, 2.0, 3.0, bias_after_scale=False),
        paddle.scale(x, 1.0, 0.0),
        -x,
        1.0 - x,
        i * 3 + 1,
        n * 2,
    ],
    gradient=("x",),
    x=normal(2, 3),
    i=integers(3, dtype="int32"),
    n=integers(3),
)
_add("scale", lambda i: paddle.scale(i, 0.5), label="halves", i=integers(5, low=-4, dtype="int32"))
_add(
    "scale",
    lambda x, factor: [
        paddle.scale(x, factor, 1.0),
        paddle.scale(x, factor, 1.0, bias_after_scale=False),
    ],
    label="a factor computed at run time",
    gradient=("x",),
    x=normal(2, 3),
    factor=normal(1, seed=1),
)
_add(
    "scale",
    lambda i, factor: paddle.scale(i, factor),
    label="integers by a factor computed at run time",
    i=integers(5, low=-4, dtype="int32"),
    factor=normal(1, seed=1) * 3,
)
_add(
    "add_n",
    lambda x, y, z: [paddle.add_n([x, y, z]), paddle.add_n([x])],
    gradient=("x", "y"),
    x=normal(2, 3),
    y=normal(2, 3, seed=1),
    z=normal(2, 3, seed=2),
)
_add(
    "clip",
    lambda x, i: [paddle.clip(x, -1.0, 1.0), paddle.clip(x, min=0.0), paddle.clip(i, 1, 3)],
    gradient=("x",),
    x=floats(-2.0, -0.9, 0.1, 0.5, 0.9, 2.0),
    i=integers(6, dtype="int32"),
)
_add(
    "clip",
    lambda x: [paddle.clip(x, -1.0, 1.0), paddle.clip(x, min=0.0)],
    gradient=("x",),
    label="bounds",
    since=Since("3.1", "the kernel's gradient is zero at the bounds"),
    x=floats(-1.0, 0.0, 0.5, 1.0),
)
_add(
    "lerp",
    lambda x, y: paddle.lerp(x, y, paddle.full([], 0.3)),
    gradient=("x", "y"),
    x=normal(2, 3),
    y=normal(3),
)
_add(
    "lerp",
    paddle.lerp,
    gradient=("x", "y"),
    label="tensor",
    x=normal(2, 3),
    y=normal(2, 3, seed=1),
    weight=uniform(3),
)
_add(
    "atan2",
    paddle.atan2,
    gradient=("x", "y"),
    x=floats(1.0, -1.0, 2.0, -2.0, 0.0),
    y=floats(1.0, 1.0, -1.0, -1.0, 2.0),
)
_ENDS = (np.inf, -np.inf, 1.0, -1.0, 0.0, -0.0, np.nan)
_add(
    "atan2",
    paddle.atan2,
    label="infinities and zeros",
    x=floats(*np.repeat(_ENDS, len(_ENDS))),
    y=floats(*np.tile(_ENDS, len(_ENDS))),
)

# Comparisons and logic.
for _op, _function in (
    ("equal", paddle.equal),
    ("not_equal", paddle.not_equal),
    ("less_than", paddle.less_than),
    ("less_equal", paddle.less_equal),
    ("greater_than", paddle.greater_than),
    ("greater_equal", paddle.greater_equal),
):
    _add(
        _op,
        lambda x, y, i, n, f=_function: [f(x, y), f(i, paddle.full([1], 2, "int32")), f(n, n)],
        x=_SPECIAL,
        y=floats(-np.inf, 0.0, 0.0, 0.5, np.nan, np.nan),
        i=integers(2, 3, dtype="int32"),
        n=integers(3),
    )
_add("equal", paddle.equal, label="bool", x=bools(4), y=bools(4, seed=1))

for _op, _function in (
    ("logical_and", paddle.logical_and),
    ("logical_or", paddle.logical_or),
    ("logical_xor", paddle.logical_xor),
):
    _add(
        _op,
        lambda x, y, i, j, u, v, f=_function: [f(x, y), f(i, j), f(u, v)],
        x=bools(2, 4),
        y=bools(4, seed=1),
        i=integers(4, high=2, dtype="int32"),
        j=integers(4, high=2, dtype="int32", seed=2),
        u=floats(0.0, 0.5, -1.0, 0.0),
        v=floats(0.0, 0.0, 2.0, 1.0),
    )
_add(
    "logical_not",
    lambda x, i, u: [paddle.logical_not(x), paddle.logical_not(i), paddle.logical_not(u)],
    x=bools(4),
    i=integers(4, high=2, dtype="int32"),
    u=floats(0.0, 0.5, -0.0),
)
for _op, _function in (
    ("bitwise_and", paddle.bitwise_and),
    ("bitwise_or", paddle.bitwise_or),
    ("bitwise_xor", paddle.bitwise_xor),
):
    _add(
        _op,
        lambda x, y, i, j, f=_function: [f(x, y), f(i, j)],
        x=bools(2, 4),
        y=bools(4, seed=1),
        i=integers(4, low=-9, high=9, dtype="int32"),
        j=integers(4, low=-9, high=9, dtype="int32", seed=1),
    )
_add("bitwise_not", lambda x, i: [~x, ~i], x=bools(4), i=integers(4, low=-9, dtype="int32"))

for _op, _function in (
    ("isnan", paddle.isnan),
    ("isinf", paddle.isinf),
    ("isfinite", paddle.isfinite),
):
    _add(_op, lambda x, i, f=_function: [f(x), f(i)], x=_SPECIAL, i=integers(3, dtype="int32"))

_NEAR = floats(-np.inf, -1.00001, 1e-9, 1.0001, -np.inf, np.nan)
for _op, _function in (("isclose", paddle.isclose), ("allclose", paddle.allclose)):
    _add(
        _op,
        lambda x, y, f=_function: [
            f(x, y),
            f(x, x),
            f(x, x, equal_nan=True),
            f(x, y, rtol=0.0, atol=1e-3),
            f(x, y, 0.01, 0.0),
            f(y, y, equal_nan=True),
        ],
        x=_SPECIAL,
        y=_NEAR,
    )
    _add(
        _op,
        _function,
        label="scalars",
        x=np.asarray(1.0, np.float32),
        y=np.asarray(1.0, np.float32),
    )
_add(
    "equal_all",
    lambda x, y, i, b: [
        paddle.equal_all(x, x),
        paddle.equal_all(x, y),
        paddle.equal_all(i, i),
        paddle.equal_all(b, b),
    ],
    x=floats(1.0, 2.0),
    y=floats(1.0, 2.5),
    i=integers(3),
    b=bools(2, 2),
)
_add(
    "equal_all",
    paddle.equal_all,
    label="shapes",
    x=np.ones((2, 1), np.float32),
    y=floats(1.0, 2.0),
)


def _attention_mask(shape: tuple[int, ...]) -> Array:
    return np.tril(np.ones(shape, dtype=bool))


_add(
    "where",
    lambda c, x, y, i, j: [paddle.where(c, x, y), paddle.where(c, i, j)],
    gradient=("x", "y"),
    c=_attention_mask((3, 4)),
    x=normal(3, 4),
    y=normal(3, 4, seed=1),
    i=integers(3, 4),
    j=integers(3, 4, seed=1),
)
_add(
    "where",
    paddle.where,
    gradient=("x", "y"),
    label="broadcast",
    c=bools(4),
    x=normal(3, 1),
    y=normal(4, seed=1),
)
_add(
    "masked_fill",
    lambda x, mask, i: [
        paddle.masked_fill(x, mask, -1e4),
        paddle.masked_fill(i, mask, 7),
    ],
    gradient=("x",),
    since=Since("3.1", "the function writes where"),
    x=normal(2, 4),
    mask=bools(4),
    i=integers(2, 4, dtype="int32"),
)
