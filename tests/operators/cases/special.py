"""Cases of special functions: bounds, zeros, signed zeros, NaN."""

from __future__ import annotations

import numpy as np
import paddle
from scipy import special

from tests.operators.operator_case import CaseTable, Since, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_NEXT_TO_ZEROS = floats(0.9999, 0.9999999, 1.0, 1.0000001, 1.9999, 1.9999999, 2.0, 2.0000002, 2.01)

_add("digamma", paddle.digamma, gradient=("x",), x=uniform(3, 4, low=0.3, high=6.0))
_add(
    "digamma",
    paddle.digamma,
    label="at a pole",
    since=Since("3.2", "zeros give NaN"),
    x=floats(0.0, -0.0, -1.0, 1.0),
)
_add(
    "digamma",
    paddle.digamma,
    gradient=("x",),
    label="far below zero",
    oracle=special.digamma,
    limitation="below -8 Paddle's gradient is another function's",
    x=floats(-9.3, -20.25, -41.75, -1000.125),
)
_add("lgamma", paddle.lgamma, gradient=("x",), x=uniform(3, 4, low=0.3, high=9.0))
_add(
    "lgamma",
    paddle.lgamma,
    gradient=("x",),
    label="at a pole",
    since=Since("3.2", "zeros have the derivative NaN"),
    x=floats(0.0, -0.0, -1.0, 2.5),
)
_add(
    "lgamma",
    paddle.lgamma,
    gradient=("x",),
    label="negative",
    x=floats(-0.5, -1.25, -2.6, 1.0, 2.0),
)
_add("lgamma", paddle.lgamma, gradient=("x",), label="next to its zeros", x=_NEXT_TO_ZEROS)
_add("lgamma", paddle.lgamma, gradient=("x",), label="one number", x=floats(3.81))
_add(
    "lgamma",
    paddle.lgamma,
    label="poles and infinities",
    x=floats(0.0, -0.0, -3.0, -1e10, np.inf, -np.inf, np.nan, 1e30),
)
_add(
    "lgamma",
    paddle.lgamma,
    gradient=("x",),
    label="slope at poles",
    since=Since("3.2", "the slope at zeros is NaN"),
    x=floats(0.0, -0.0, -1.0, 1.0),
)
_add(
    "gammaln",
    lambda x: paddle.gammaln(x),
    gradient=("x",),
    label="next to its zeros",
    since=Since("3.0", "the function does not exist"),
    x=_NEXT_TO_ZEROS,
)
_add(
    "gammaln",
    lambda x: paddle.gammaln(x),
    gradient=("x",),
    label="poles",
    since=Since("3.1", "the gradient at the poles is 0"),
    x=floats(0.0, -0.0, -1.0, 1.0),
)
_add(
    "gammaln",
    lambda x: paddle.gammaln(x),
    gradient=("x",),
    since=Since("3.0", "the function does not exist"),
    x=uniform(3, 4, low=0.3, high=9.0),
)
_add(
    "gammaincc",
    lambda x, y: [paddle.gammaincc(x, y), paddle.gammainc(x, y)],
    gradient=("y",),
    since=Since("3.0", "the function does not exist"),
    x=uniform(3, 4, low=0.5, high=4.0),
    y=uniform(3, 4, low=0.5, high=4.0, seed=1),
)
_add(
    "polygamma",
    lambda x: [paddle.polygamma(x, 1), paddle.polygamma(x, 2), paddle.polygamma(x, 3)],
    gradient=("x",),
    x=uniform(3, 4, low=0.6, high=5.0),
)
_add(
    "polygamma",
    lambda x: [paddle.polygamma(x, 1), paddle.polygamma(x, 2), paddle.polygamma(x, 3)],
    label="poles",
    x=floats(-2.0, -1.0, -0.0, 0.0, -0.5, np.nan),
)
_add(
    "polygamma",
    lambda x: [paddle.polygamma(x, 1), paddle.polygamma(x, 2), paddle.polygamma(x, 3)],
    gradient=("x",),
    label="far below zero",
    x=floats(-9.3, -20.25, -41.75, -1000.125),
)
_add(
    "polygamma",
    lambda x: paddle.polygamma(x, 40),
    label="a factorial beyond the range",
    x=floats(0.5, 1.0),
)
_add("erfinv", paddle.erfinv, gradient=("x",), x=floats(-0.95, -0.5, 0.0, 0.25, 0.7, 0.9))
_add(
    "erfinv",
    paddle.erfinv,
    gradient=("x",),
    label="bounds",
    x=floats(-1.5, -1.0, 1.0, 1.5, np.nan),
)
for _op, _function in (
    ("i0", paddle.i0),
    ("i0e", paddle.i0e),
    ("i1", paddle.i1),
    ("i1e", paddle.i1e),
):
    _add(_op, _function, gradient=("x",), x=floats(-9.0, -2.5, -0.5, 0.25, 1.0, 7.9, 8.5))
    _add(_op, _function, gradient=("x",), label="zero", x=floats(0.0, 1.0))
    smallest = floats(-0.0, np.finfo(np.float32).tiny, -1e-37, 1e-5, np.nan, 2.0)
    _add(_op, _function, gradient=("x",), label="smallest", x=smallest)
_add("nextafter", paddle.nextafter, x=floats(1.0, 1.0, -2.0, 5.0), y=floats(2.0, 0.0, -3.0, 5.0))
_add(
    "nextafter",
    paddle.nextafter,
    label="NaN",
    x=floats(np.nan, 1.0, np.inf, -np.inf),
    y=floats(1.0, np.nan, 0.0, 0.0),
)
_add(
    "copysign",
    lambda x, y, i, j: [paddle.copysign(x, y), paddle.copysign(i, j)],
    gradient=("x", "y"),
    since=Since("3.0", "the function does not exist"),
    x=floats(1.0, -2.0, 3.0, -4.0, 0.0, 2.0),
    y=floats(-1.0, -2.0, 0.0, -0.0, -1.0, np.inf),
    i=integers(4, low=-3, dtype="int32"),
    j=integers(4, low=-3, dtype="int32", seed=1),
)
_add(
    "heaviside",
    paddle.heaviside,
    gradient=("x", "y"),
    x=np.asarray([[-1.5, 0.0, 2.0], [-0.0, 0.0, np.nan]], np.float32),
    y=normal(3),
)
_add(
    "heaviside",
    paddle.heaviside,
    label="integers",
    x=integers(5, low=-2, high=3, dtype="int32"),
    y=integers(5, dtype="int32", seed=1),
)
_add("angle", paddle.angle, gradient=("x",), x=floats(-1.5, 0.0, 2.0, -np.inf, np.inf))
_add(
    "logit",
    lambda x: [paddle.logit(x), paddle.logit(x, 0.1)],
    gradient=("x",),
    x=floats(0.05, 0.2, 0.5, 0.75, 0.97),
)
_add(
    "logit",
    lambda x: paddle.logit(x, 0.25),
    gradient=("x",),
    label="bounds",
    x=floats(0.25, 0.75, 0.0, 1.0),
)
_add("logit", lambda x: paddle.logit(x, 0.0), gradient=("x",), label="the ends",
     x=floats(0.0, 0.25, 1.0))  # fmt: skip
_add("logit", lambda x: paddle.logit(x, 0.0), label="outside", x=floats(-0.5, 0.0, 0.4, 1.0, 1.5))

_add(
    "rint",
    lambda x: paddle._C_ops.rint(x),
    gradient=("x",),
    since=Since("3.1", "the operator does not exist"),
    x=floats(-1.5, -0.5, 0.5, 1.5, 2.5, 0.2),
)
_add(
    "rint",
    lambda x, i: [paddle._C_ops.rint(paddle.roll(x, 1)), paddle._C_ops.rint(i)],
    label="integers",
    since=Since("3.1", "the operator does not exist"),
    x=np.asarray([3, -7, 2**40 + 1]),
    i=integers(3, low=-9, dtype="int32"),
)
_SHIFTS = Since("3.0", "the function does not exist")
for _op in ("bitwise_left_shift", "bitwise_right_shift"):
    _add(
        _op,
        lambda x, y, b, f=_op: [
            getattr(paddle, f)(x, y),
            getattr(paddle, f)(x, y, is_arithmetic=False),
            getattr(paddle, f)(x, b),
        ],
        since=_SHIFTS,
        x=np.asarray([[-17, 5, 1 << 30], [123, -1, 0]], np.int32),
        y=np.asarray([[2, 31, 1], [0, 32, 5]], np.int32),
        b=np.asarray([3, -1, 40], np.int32),
    )
