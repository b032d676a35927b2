"""Cases of variances, medians, histograms and counts: NaN, ties, bounds."""

from __future__ import annotations

import numpy as np
import paddle

from tests.operators.cases import by_operator
from tests.operators.operator_case import (
    Array,
    CaseTable,
    Since,
    floats,
    integers,
    normal,
    uniform,
)

TABLE = CaseTable()
_add = TABLE.add

_MOMENTS = Since("3.3", "the operator does not exist")
for _op in ("std", "var"):
    _add(
        _op,
        lambda x, f=_op: [
            getattr(paddle._C_ops, f)(x, [], False, True, 1.0),
            getattr(paddle._C_ops, f)(x, [-1], True, False, 1.0),
            getattr(paddle._C_ops, f)(x, [0, 2], False, True, 2.0),
        ],
        gradient=("x",),
        since=_MOMENTS,
        x=normal(3, 2, 4),
    )
_add(
    "std",
    lambda x: paddle._C_ops.std(x, [-1], False, True, 1.0),
    label="of equal numbers",
    gradient=("x",),
    since=_MOMENTS,
    x=floats([2.5, 2.5, 2.5], [1.0, 2.0, 4.0]),
)
_add(
    "variance",
    lambda x: [paddle._C_ops.variance(x, [], False), paddle._C_ops.variance(x, [1], True)],
    since=_MOMENTS,
    x=normal(3, 4),
)
_add(
    "nansum",
    lambda x: [
        paddle._C_ops.nansum(x, [], "float32", False),
        paddle._C_ops.nansum(x, [-1], "float32", True),
    ],
    gradient=("x",),
    since=_MOMENTS,
    x=np.asarray([[1.0, np.nan, 3.0], [np.nan, -2.0, 0.5]], np.float32),
)
_MEDIAN = Since("3.3", "the function is made of other operators")
_add(
    "median",
    lambda x: [
        paddle.median(x),
        paddle.median(x, axis=1),
        paddle.median(x, axis=0, keepdim=True),
        paddle.median(x, axis=-1),
    ],
    gradient=("x",),
    since=_MEDIAN,
    x=normal(3, 4, 5),
)
_add(
    "median",
    lambda x: [*paddle.median(x, axis=1, mode="min"), *paddle.median(x, 0, True, "min")],
    gradient=("x",),
    label="smaller",
    since=_MEDIAN,
    x=normal(3, 4),
)
_add(
    "median",
    lambda x: paddle.median(x, axis=1),
    gradient=("x",),
    label="ties",
    since=_MEDIAN,
    x=np.asarray([[1.0, 2.0, 2.0, 2.0], [0.0, 1.0, 1.0, 3.0], [0.0, 1.0, 4.0, 5.0]], np.float32),
)
_add(
    "median",
    lambda x: paddle.median(x, axis=1),
    label="NaN",
    since=_MEDIAN,
    x=np.asarray([[1.0, np.nan, 2.0], [0.0, 1.0, 3.0]], np.float32),
)
_WITH_NAN = np.asarray(
    [[1.0, np.nan, 3.0, -2.0], [np.nan, 5.0, np.nan, 4.0], [7.0, 2.0, 6.0, 0.5]], np.float32
)
_add(
    "nanmedian",
    lambda x: [
        paddle.nanmedian(x),
        paddle.nanmedian(x, axis=1),
        paddle.nanmedian(x, axis=0, keepdim=True),
        paddle.nanmedian(x, axis=[0, 1]),
    ],
    gradient=("x",),
    x=_WITH_NAN,
)
_add(
    "nanmedian",
    lambda x: paddle.nanmedian(x, axis=[0, 2]),
    gradient=("x",),
    label="axes",
    x=normal(3, 2, 5),
)
_add(
    "nanmedian",
    lambda x: paddle.nanmedian(x, axis=1),
    label="nothing known",
    x=np.asarray([[np.nan, np.nan], [1.0, np.nan]], np.float32),
)
_add(
    "nanmedian",
    lambda x: [*paddle.nanmedian(x, axis=1, mode="min")],
    gradient=("x",),
    label="smaller",
    since=Since("3.0", "the function has no mode"),
    x=_WITH_NAN,
)
_add(
    "histogram",
    lambda x, i: [
        paddle.histogram(x, 5),
        paddle.histogram(x, 4, min=-1, max=2),
        paddle.histogram(i, 4, min=0, max=8),
        paddle.histogram(i, 3),
    ],
    x=normal(4, 5),
    i=integers(20, high=9, dtype="int32"),
)
_add(
    "histogram",
    lambda x: [paddle.histogram(x, 4, min=-(2**30), max=2**30), paddle.histogram(x, 4)],
    label="beyond 32 bits",
    x=np.asarray([8836345459795192826, -3, 5 - 2**33, 7], np.int64) // 4,
)
_add(
    "histogram",
    lambda x: [paddle.histogram(x, 4), paddle.histogram(x, 4, min=0, max=2)],
    label="bounds",
    x=floats(2.0, 0.0, 1.0, 0.5, 2.0, 1.5),
)
_add(
    "histogram",
    lambda i, j: [
        paddle.histogram(i, 7),
        paddle.histogram(i, 1000, min=-(2**30), max=2**29),
        paddle.histogram(j, 999),
        paddle.histogram(j, 6, min=-(2**31), max=2**31 - 128),
    ],
    label="wide ranges",
    i=np.arange(-50, 50, dtype=np.int32) * 21474835,
    j=np.linspace(-(2**31), 2**31 - 1, 97).astype(np.int64),
)
_add("histogram", lambda x: paddle.histogram(x, 4), label="one number", x=floats(2.0, 2.0))
_add(
    "histogram",
    lambda x, w: [
        paddle.histogram(x, 5, weight=w),
        paddle.histogram(x, 4, -1, 2, density=True),
        paddle.histogram(x, 4, -1.5, 2.5, weight=w, density=True),
    ],
    label="weights",
    since=Since("3.0", "the function has neither weight nor density"),
    x=normal(20),
    w=uniform(20, seed=1),
)
_add(
    "bincount",
    lambda x: [x + 1, paddle.bincount(paddle.assign(np.asarray([1, 3, 1], np.int64)), minlength=6)],
    x=integers(3),
)
TABLE.refuse("bincount", paddle.bincount, "as long as the largest number", x=integers(5))


def _counts(numbers: Array) -> Array:
    return np.bincount(numbers[numbers >= 0], minlength=4)


_add(
    "number_count",
    lambda x: by_operator.number_count(x, 4),
    oracle=_counts,
    x=np.asarray([0, 3, 1, -1, 3, 3], np.int64),
)
