"""Cases of whole numbers where floats are usual, and of truth values that are calculated with."""

from __future__ import annotations

import numpy as np
import paddle

from tests.operators.operator_case import Array, CaseTable, Since

TABLE = CaseTable()
_add = TABLE.add

_WIDE = ("int32", "int64")
_NUMBERS = [0, 1, 2, 5, -3]
_LATER = Since("3.0", "the Python function refuses this dtype")


def _whole(dtype: str) -> Array:
    return np.asarray(_NUMBERS, dtype)


def _truths(*numbers: int) -> Array:
    return np.asarray(numbers, bool)


for _dtype in _WIDE:
    for _op in ("exp", "expm1", "log", "log1p", "log2", "log10"):
        _add(_op, getattr(paddle, _op), label=_dtype, x=_whole(_dtype))
    for _op in ("ceil", "floor", "round"):
        since = Since("3.1", "the kernel takes no integers") if _op == "round" else _LATER
        _add(_op, getattr(paddle, _op), label=_dtype, since=since, x=_whole(_dtype))
    _add("trunc", paddle.trunc, label=_dtype, x=_whole(_dtype))
    for _op in ("sin", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "erf", "atan"):
        _add(
            _op,
            getattr(paddle, _op, None) or getattr(paddle.nn.functional, _op),
            label=_dtype,
            since=_LATER,
            x=_whole(_dtype),
        )
    _add(
        "atan2",
        paddle.atan2,
        label=_dtype,
        x=_whole(_dtype),
        y=np.asarray([1, -2, 0, 3, -4], _dtype),
    )
    for _op in ("any", "all"):
        _add(
            _op,
            lambda x, f=_op: [getattr(paddle, f)(x), getattr(paddle, f)(x, axis=0, keepdim=True)],
            label=_dtype,
            x=np.asarray([[0, 2], [0, -1]], _dtype),
        )
_X, _Y = _truths(1, 1, 0, 0), _truths(1, 0, 1, 0)
for _op in ("less_than", "less_equal", "greater_than", "greater_equal"):
    _add(_op, getattr(paddle, _op), label="bool", x=_X, y=_Y)
_add("multiply", lambda x, y: x * y, label="bool", x=_X, y=_Y)
_add("add", lambda x, y: x + y, label="bool", since=_LATER, x=_X, y=_Y)
_add("multiply", paddle.outer, label="bool outer", since=Since("3.3", "outer takes no bool"),
     x=_X, y=_Y)  # fmt: skip
_add(
    "copysign",
    lambda x, y: paddle.copysign(x, y),
    label="bool",
    since=_LATER,
    x=_X,
    y=_Y,
)
_add("allclose", paddle.allclose, label="bool", since=_LATER, x=_X, y=_Y)
_add("allclose", lambda x: paddle.allclose(x, x), label="bool same", since=_LATER, x=_X)
_add("scale", lambda x: -x, label="bool", x=_X)
_add(
    "scale",
    lambda x: [
        paddle.scale(x, 2.0, 1.0),
        paddle.scale(x, 0.5, 0.0),
        paddle.scale(x, 0.0, 0.5),
        paddle.scale(x, 2.0, 1.0, False),
        paddle.scale(x, 1.0, 0.0),
    ],
    label="bool factors",
    since=_LATER,
    x=_X,
)
_add(
    "mean",
    lambda x: [paddle.mean(x), paddle.mean(x, 0), paddle.mean(x, -1, keepdim=True)],
    label="bool",
    since=_LATER,
    x=_truths(1, 1, 0, 0, 0, 0).reshape(3, 2),
)
