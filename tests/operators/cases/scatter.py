"""Cases of writing at places given by indices, masks, slices and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.cases.one_operator import either
from tests.operators.operator_case import CaseTable, Since, bools, floats, integers, normal

TABLE = CaseTable()
_add = TABLE.add

_MATRIX = normal(4, 5)
_CUBE = normal(2, 3, 4)
_ROWS = np.asarray([2, 0, 3])
_TWICE = np.asarray([2, 0, 2])
_WHOLE = integers(4, 5, dtype="int32")
_MASK = bools(4, 5, seed=2)

_add(
    "scatter",
    lambda x, u, n: [
        paddle.scatter(x, n, u),
        paddle.scatter(x, n.astype("int32"), u, overwrite=False),
    ],
    gradient=("x", "u"),
    x=_MATRIX,
    u=normal(3, 5, seed=1),
    n=_ROWS,
)
_add(
    "scatter",
    lambda x, u, n: [paddle.scatter(x, n, u), paddle.scatter(x, n, u, overwrite=False)],
    gradient=("x", "u"),
    label="the same row twice",
    x=_MATRIX,
    u=normal(3, 5, seed=1),
    n=_TWICE,
)
_add(
    "scatter",
    lambda x, u, n, v, w: [
        paddle.scatter(x, n, u),
        paddle.scatter(x, n, u, overwrite=False),
        paddle.scatter(v, n, w),
    ],
    label="whole numbers and vectors",
    x=integers(4, 2, 3),
    u=integers(3, 2, 3, seed=1),
    n=_TWICE,
    v=normal(4),
    w=normal(3, seed=1),
)
_add(
    "scatter_nd_add",
    lambda x, n, u, m, v: [
        paddle.scatter_nd_add(x, n, u),
        paddle.scatter_nd_add(x, m, v),
        paddle.scatter_nd(m, v, [2, 3, 4]),
    ],
    gradient=("x", "u", "v"),
    x=_CUBE,
    n=np.asarray([[1], [0], [1]]),
    u=normal(3, 3, 4, seed=1),
    m=np.asarray([[[1, 2], [0, 0]], [[1, 2], [0, 1]]], np.int32),
    v=normal(2, 2, 4, seed=2),
)
_add(
    "scatter_nd_add",
    lambda x, m, v: paddle.scatter_nd_add(x, m, v),
    gradient=("x", "v"),
    label="from the end",
    since=Since("3.0", "the kernel takes no index below zero"),
    x=_CUBE,
    m=np.asarray([[-1, -3], [1, 2], [1, 0]]),
    v=normal(3, 4, seed=2),
)
_add(
    "scatter_nd_add",
    lambda x, n, u: paddle.scatter_nd_add(x, n, u),
    label="single elements of whole numbers",
    x=integers(2, 3),
    n=np.asarray([[1, 2], [0, 0], [1, 2]]),
    u=integers(3),
)
_add(
    "index_add",
    lambda x, u, n, v: [
        paddle.index_add(x, n, 0, u),
        paddle.index_add(x, n.astype("int32"), -1, v),
    ],
    gradient=("x", "u", "v"),
    x=_MATRIX,
    u=normal(3, 5, seed=1),
    n=_TWICE,
    v=normal(4, 3, seed=2),
)
_add(
    "index_add",
    lambda x, u, n: paddle.index_add(x, n, 1, u),
    label="whole numbers",
    x=integers(4, 5),
    u=integers(4, 3, seed=1),
    n=_TWICE,
)
_add(
    "index_put",
    lambda x, u, n, m: [
        paddle.index_put(x, (n,), u),
        paddle.index_put(x, (n,), u, accumulate=True),
        paddle.index_put(x, (n, m), u[:, 0]),
    ],
    gradient=("x", "u"),
    x=_MATRIX,
    u=normal(3, 5, seed=1),
    n=_ROWS,
    m=np.asarray([4, 1, -1]),
)
_add(
    "index_put",
    lambda x, u, n, m: [
        paddle.index_put(x, (n, m), u[0, 0], accumulate=True),
        paddle.index_put(x, (n.reshape([3, 1]), m), u.unsqueeze(1), accumulate=True),
        paddle.index_put(x, (n,), u[0, :1]),
    ],
    gradient=("x", "u"),
    label="broadcast and duplicates",
    x=_CUBE,
    u=normal(3, 4, seed=1),
    n=np.asarray([1, 0, 1]),
    m=np.asarray([2]),
)
_add(
    "index_put",
    lambda x, v, b: [
        paddle.index_put(x, (b,), v),
        paddle.index_put(x, (b,), v, accumulate=True),
    ],
    gradient=("x", "v"),
    label="mask",
    x=_MATRIX,
    v=floats(1.5),
    b=bools(4, 5),
)
_add(
    "index_put",
    lambda x, i, n, b: [
        paddle.static.setitem(x * 1, n, -1.0),
        paddle.static.setitem(x * 1, (slice(None), n), -1.0),
        paddle.static.setitem(x * 1, b, 7.0),
        paddle.static.setitem(i + 0, b, 7),
        paddle.static.setitem(x * 1, b[:, 0], 7.0),
    ],
    label="what setitem writes",
    since=Since("3.0", "a number of another dtype is cast by a kernel that is not there"),
    x=_MATRIX,
    i=_WHOLE,
    n=_ROWS,
    b=bools(4, 5),
)
_add(
    "index_put",
    lambda x, v, b: [
        paddle.index_put(x, (paddle.assign(_MASK),), v),
        paddle.index_put(x, (paddle.assign(_MASK),), v, accumulate=True),
        paddle.index_put(x, (paddle.assign(_MASK[:, 1]),), x[:1] * 2),
        paddle.index_put(x, (b[:, 0],), x[0] * 2),
    ],
    gradient=("x", "v"),
    label="constant mask with a value for each element",
    x=_MATRIX,
    v=normal(int(_MASK.sum()), seed=1),
    b=bools(4, 5),
)
TABLE.refuse(
    "index_put",
    lambda x, v, b: paddle.index_put(x, (b,), v),
    r"a mask with values of shape \[3\] is not supported",
    x=_MATRIX,
    v=normal(3),
    b=bools(4, 5),
)


def _put(reduce: str, include_self: bool = True, axis: int = 1) -> Any:
    return lambda x, n, u: paddle.put_along_axis(x, n, u, axis, reduce, include_self=include_self)


_COLUMNS = np.asarray([[0, 3], [2, 4], [1, 1], [4, 4]])
for _kind in ("assign", "add", "mean", "mul", "amax", "amin"):
    for _include in (True, False):
        if _kind == "assign" and not _include:
            continue
        _add(
            "put_along_axis",
            _put(_kind, _include),
            gradient=("x", "u"),
            label=_kind if _include else f"{_kind} without what was there",
            x=normal(4, 5),
            n=_COLUMNS,
            u=normal(4, 2, seed=1),
        )
        _add(
            "put_along_axis",
            _put(_kind, _include, 0),
            label=f"{_kind} of whole numbers{'' if _include else ' without what was there'}",
            x=integers(4, 5),
            n=integers(3, 5, high=4, seed=2),
            u=integers(3, 5, seed=1),
        )
for _kind in ("amax", "amin"):
    _add(
        "put_along_axis",
        _put(_kind),
        gradient=("x", "u"),
        label=f"{_kind} with ties",
        x=floats([1.0, 2.0, 3.0]),
        n=np.asarray([[0, 1, 1, 2, 2]]),
        u=floats([1.0, 2.0, 2.0, 4.0, 4.0] if _kind == "amax" else [1.0, 2.0, 2.0, 0.0, 0.0]),
    )
_add(
    "put_along_axis",
    lambda x, n, v: [
        paddle.put_along_axis(x, n, v, 0),
        paddle.put_along_axis(x, n, v, -2, "add"),
    ],
    gradient=("x", "v"),
    label="broadcast",
    x=normal(4, 5),
    n=np.asarray([[2, 0, 1, 1, 3]], np.int32),
    v=normal(1, 1, seed=1),
)
_add(
    "put_along_axis",
    lambda x, n, v: [
        paddle.put_along_axis(x, n, v, 1, broadcast=False),
        paddle.put_along_axis(x, n, v, 0, "mean", broadcast=False),
    ],
    gradient=("x", "v"),
    label="smaller shapes",
    since=Since("3.0", "the Python function takes no variable without broadcast"),
    x=normal(4, 5),
    n=np.asarray([[2, 0], [3, 1], [1, 2]], np.int32),
    v=normal(3, 2, seed=1),
)
_add(
    "put_along_axis",
    lambda x, n, v: paddle.put_along_axis(x, n, v, 1, "add", broadcast=False),
    label="larger values",
    limitation="Paddle's own gradient has the shape of the places",
    since=Since("3.0", "the Python function takes no variable without broadcast"),
    x=normal(4, 5),
    n=np.asarray([[2, 0], [3, 1], [1, 2]], np.int32),
    v=normal(4, 3, seed=1),
)
_add(
    "put_along_axis",
    lambda x, n, v: paddle.put_along_axis(x, n, v, 1),
    label="places from the end",
    limitation="Paddle's own gradient takes no place below zero",
    since=Since("3.0", "the kernel takes no place below zero"),
    x=normal(3, 5),
    n=np.asarray([[2, 0], [-1, 1], [1, -5]]),
    v=normal(3, 2, seed=1),
)

# Slices.
_VALUES = normal(4, 2, seed=1)


def _set(x: Any, item: Any, value: Any) -> Any:
    return paddle.static.setitem(x * 1, item, value)


_add(
    "set_value",
    lambda x, i: [
        _set(x, slice(0, 2), 3.0),
        _set(x, (slice(None), slice(1, None, 2)), 3.0),
        _set(x, (slice(None, None, -2), 1), -2.5),
        _set(x, (Ellipsis, -1), 0.5),
        _set(x, (1, 2), 7.0),
        _set(x, (None, 0), 7.0),
        _set(x, slice(None), 1.0),
        _set(x, slice(2, 2), 1.0),
        _set(i, (slice(-3, -1), slice(0, 100)), 9),
    ],
    x=_MATRIX,
    i=_WHOLE,
)


_add(
    "set_value",
    lambda x: _set(x[0, 0], Ellipsis, 5.0),
    label="without axes",
    since=Since("3.0", "the Python function takes no tensor without axes"),
    x=_MATRIX,
)


def _numbers(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.copy()
    x[slice(None, None, -2), 1], x[0, 2:4] = -2.5, 3.0
    return x


_add(
    "set_value",
    lambda x: _set(_set(x, (slice(None, None, -2), 1), -2.5), (0, slice(2, 4)), 3.0),
    gradient=("x",),
    label="gradient",
    limitation="in programs of Paddle 3 its own gradient passes through what was overwritten",
    oracle=_numbers,
    x=_MATRIX,
)
_add(
    "set_value_with_tensor",
    lambda x, v: [
        _set(x, (slice(None), slice(1, 3)), v),
        _set(x, (slice(None, None, -1), slice(4, 0, -3)), v),
        _set(x, (slice(None), slice(0, None, 4)), v[0]),
        _set(x, (2, slice(0, 2)), v[1:2]),
        _set(x, (0, 0), v[0, 0]),
        _set(x, (slice(2, 2), 0), v[0, :1]),
    ],
    gradient=("x", "v"),
    x=_MATRIX,
    v=_VALUES,
)
_add(
    "set_value_with_tensor",
    lambda x, w: _set(x, (slice(1, 3), None, slice(0, 2)), w),
    label="new axis",
    x=_MATRIX,
    w=normal(2, 1, 2),
)
_add(
    "set_value_with_tensor",
    lambda x, v, w: [
        _set(x, (0, None), x[3] * 2),
        _set(x, (None, 0, slice(0, 2)), w[1]),
        _set(x, (slice(0, 2), 1, None), v[:1, :2].reshape([2, 1])),
        _set(x, (slice(0, 2), None, slice(0, 2), None), w.reshape([2, 1, 2, 1])),
    ],
    label="new axes before and behind dropped ones",
    x=_MATRIX,
    v=_VALUES,
    w=normal(2, 1, 2),
)
_add(
    "set_value_with_tensor",
    lambda x, w: _set(x, (slice(1, 3), None, slice(0, 2)), w),
    gradient=("x", "w"),
    label="gradient with a new axis",
    limitation="Paddle's own gradient of the value is added up along the wrong axis",
    oracle=lambda x, w: np.vstack([x[:1], np.hstack([w[:, 0], x[1:3, 2:]]), x[3:]]),
    x=_MATRIX,
    w=normal(2, 1, 2),
)
_add(
    "set_value_with_tensor",
    lambda i, v, b, c: [
        _set(i, (slice(None), slice(1, 3)), v),
        paddle.static.setitem(paddle.logical_not(b), slice(1, 3), c),
    ],
    label="whole numbers and truth values",
    i=_WHOLE,
    v=integers(4, 2, seed=1, dtype="int32"),
    b=bools(4, 5),
    c=bools(2, 5, seed=1),
)
_add(
    "set_value",
    lambda x, n: [
        _set(x, (slice(None), n[0]), 3.0),
        _set(x, (slice(n[0], n[0] + 2), slice(n[1], n[1] + 3)), 3.0),
        _set(x, (n[0], -n[0]), -2.5),
    ],
    label="from computed starts",
    x=_MATRIX,
    n=np.array([2, 1]),
)
_add(
    "set_value_with_tensor",
    lambda x, v, n: [
        _set(x, (slice(None), slice(n[0], n[0] + 2)), v),
        _set(x, (slice(n[1], n[1] + 1), slice(None, None, 3)), v[:1]),
        _set(x, (n[1], slice(n[0], n[0] + 2)), v[2]),
        _set(x, (slice(0, 2), n[0]), v[:2, 0]),
    ],
    gradient=("x", "v"),
    label="from computed starts",
    x=_MATRIX,
    v=_VALUES,
    n=np.array([2, 1]),
)
TABLE.refuse(
    "set_value_with_tensor",
    lambda x, w: _set(x, (slice(None), None, slice(None), None), w),
    r"a value of shape \[4, 1, 5, 2\] does not broadcast to the slice, \[4, 1, 5, 1\]",
    x=_MATRIX,
    w=normal(4, 1, 5, 2),
)
TABLE.refuse(
    "set_value",
    lambda x, n: _set(x, slice(n[0], n[1]), 3.0),
    "the bounds of axis 0 are computed at run time, and its length does not follow",
    x=_MATRIX,
    n=_ROWS.astype(np.int32),
)
TABLE.refuse(
    "set_value",
    lambda x, n: _set(x, slice(n[0], n[0] + 4, 2), 3.0),
    "the bounds of axis 0 are computed at run time, with a step of 2",
    x=_MATRIX,
    n=_ROWS.astype(np.int32),
)


# Whole tensors and diagonals.
def _fill(x: Any, value: float) -> Any:
    return either(lambda: paddle._C_ops.fill(x, value), "fill_any", {"X": x}, x.dtype, value=value)


_add(
    "fill",
    lambda x, i: [_fill(x, 2.5) + 0 * x, _fill(i, 3)],
    gradient=("x",),
    x=_MATRIX,
    i=_WHOLE,
)


def _fill_diagonal(x: Any, value: float, offset: int, wrap: bool) -> Any:
    return either(
        lambda: paddle._C_ops.fill_diagonal(x, value, offset, wrap),
        "fill_diagonal",
        {"X": x},
        x.dtype,
        value=value,
        offset=offset,
        wrap=wrap,
    )


_add(
    "fill_diagonal",
    lambda x, t, c, i: [
        _fill_diagonal(x, 2.5, 0, False),
        _fill_diagonal(x, 2.5, 1, False),
        _fill_diagonal(x, 2.5, -1, False),
        _fill_diagonal(t, 2.5, 0, False),
        _fill_diagonal(t, 2.5, 0, True),
        _fill_diagonal(t, 2.5, 1, True),
        _fill_diagonal(c, 2.5, 0, False),
        _fill_diagonal(i, 9, 2, False),
    ],
    gradient=("x", "t", "c"),
    x=_MATRIX,
    t=normal(7, 3),
    c=normal(3, 3, 3),
    i=_WHOLE,
)


def _fill_diagonal_tensor(x: Any, y: Any, offset: int, dim1: int, dim2: int) -> Any:
    return either(
        lambda: paddle._C_ops.fill_diagonal_tensor(x, y, offset, dim1, dim2),
        "fill_diagonal_tensor",
        {"X": x, "Y": y},
        x.dtype,
        offset=offset,
        dim1=dim1,
        dim2=dim2,
    )


_add(
    "fill_diagonal_tensor",
    lambda x, y, z, m, v: [
        _fill_diagonal_tensor(x, y, 0, 1, 2),
        _fill_diagonal_tensor(x, z, 1, 2, 0),
        paddle.diagonal_scatter(m, v, offset=-1),
        v * 2,
    ],
    gradient=("x", "m", "v"),
    x=_CUBE,
    y=normal(2, 3, seed=1),
    z=normal(3, 1, seed=2),
    m=_MATRIX,
    v=normal(3, seed=3),
)
