"""Cases of unary functions and activations, with rows where derivatives jump."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import CaseTable, Since, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_AROUND_ZERO = floats(-2.0, -0.5, -0.0, 0.0, 0.5, 3.0)
_WITH_LIMITS = floats(-np.inf, -1e4, -30.0, -1.0, 0.0, 1.0, 30.0, 1e4, np.inf, np.nan)


def _everywhere(op: str, function: Callable[..., Any]) -> None:
    """Values and gradients around zero; values alone at the limits of float32."""
    _add(
        op,
        lambda x, limits: [function(x), function(limits)],
        gradient=("x",),
        x=_AROUND_ZERO,
        limits=_WITH_LIMITS,
    )


for _op, _function in (
    ("abs", paddle.abs),
    ("ceil", paddle.ceil),
    ("erf", paddle.erf),
    ("exp", paddle.exp),
    ("expm1", paddle.expm1),
    ("floor", paddle.floor),
    ("sigmoid", F.sigmoid),
    ("sign", paddle.sign),
    ("square", paddle.square),
    ("tanh", paddle.tanh),
    ("trunc", paddle.trunc),
    ("relu6", F.relu6),
    ("leaky_relu", F.leaky_relu),
    ("hardsigmoid", F.hardsigmoid),
    ("elu", F.elu),
    ("selu", F.selu),
    ("atan", paddle.atan),
    ("softplus", F.softplus),
):
    _everywhere(_op, _function)

for _op, _function in (
    ("gelu", F.gelu),
    ("silu", F.silu),
    ("swish", F.swish),
    ("softsign", F.softsign),
    ("logsigmoid", F.log_sigmoid),
    ("mish", F.mish),
    ("stanh", paddle.stanh),
    ("celu", F.celu),
    ("tanh_shrink", F.tanhshrink),
    ("sinh", paddle.sinh),
    ("cosh", paddle.cosh),
    ("asinh", paddle.asinh),
):
    _add(_op, lambda x, f=_function: f(x), gradient=("x",), x=_AROUND_ZERO)

for _op, _function in (("sinh", paddle.sinh), ("cosh", paddle.cosh)):
    _add(
        _op,
        lambda x, f=_function: f(x),
        gradient=("x",),
        label="near the largest",
        x=floats(0.0, -1.0, 10.0, -45.5, 88.0, -89.2, 89.6, 500.0),
    )

for _op, _function in (("sin", paddle.sin), ("cos", paddle.cos), ("tan", paddle.tan)):
    _add(_op, lambda x, f=_function: f(x), gradient=("x",), x=normal(3, 4))

for _op, _function in (("asin", paddle.asin), ("acos", paddle.acos), ("atanh", paddle.atanh)):
    _add(_op, lambda x, f=_function: f(x), gradient=("x",), x=uniform(5, low=-0.9, high=0.9))
_add("acosh", paddle.acosh, gradient=("x",), x=uniform(5, low=1.1, high=4.0))

for _op, _function in (
    ("log", paddle.log),
    ("log2", paddle.log2),
    ("log10", paddle.log10),
    ("log1p", paddle.log1p),
    ("sqrt", paddle.sqrt),
    ("rsqrt", paddle.rsqrt),
    ("reciprocal", paddle.reciprocal),
):
    _add(
        _op,
        lambda x, limits, f=_function: [f(x), f(limits)],
        gradient=("x",),
        x=floats(0.25, 0.5, 1.0, 2.0, 10.0),
        limits=floats(0.0, np.inf, np.nan),
    )
_add("sqrt", paddle.sqrt, gradient=("x",), label="zero", x=floats(0.0, 1.0))
_add("log", paddle.log, gradient=("x",), label="zero", x=floats(0.0, 1.0))
_add("rsqrt", paddle.rsqrt, gradient=("x",), label="zero", x=floats(0.0, 1.0))
_add("reciprocal", paddle.reciprocal, gradient=("x",), label="zero", x=floats(0.0, 1.0))

_add(
    "relu",
    lambda x, limits: [F.relu(x), F.relu(limits)],
    gradient=("x",),
    x=_AROUND_ZERO,
    limits=floats(-np.inf, np.inf),
)
_add("gelu", lambda x: F.gelu(x, approximate=True), gradient=("x",), label="tanh", x=_AROUND_ZERO)
_add("tanh", lambda x: paddle.log(paddle.tanh(x)), gradient=("x",), label="an infinite slope",
     x=floats(0.0, 0.5))  # fmt: skip
_add("relu6", F.relu6, gradient=("x",), label="bounds", x=floats(-1.0, 0.0, 3.0, 6.0, 7.0))
_add(
    "hardtanh",
    lambda x: [F.hardtanh(x), F.hardtanh(x, -0.5, 2.0)],
    gradient=("x",),
    x=floats(-2.0, -1.0, -0.5, 0.0, 1.0, 2.0, 3.0),
)
_add(
    "hardsigmoid",
    F.hardsigmoid,
    gradient=("x",),
    label="bounds",
    x=floats(-4.0, -3.0, 0.0, 3.0, 4.0),
)
_add("hardswish", F.hardswish, gradient=("x",), x=floats(-4.0, -3.0, -1.0, 0.0, 1.0, 3.0, 4.0))
_add("leaky_relu", lambda x: F.leaky_relu(x, 0.2), gradient=("x",), label="slope", x=_AROUND_ZERO)
_add("elu", lambda x: F.elu(x, 0.5), gradient=("x",), label="alpha", x=_AROUND_ZERO)
_add("celu", lambda x: F.celu(x, 0.5), gradient=("x",), label="alpha", x=_AROUND_ZERO)
_add(
    "softplus",
    lambda x: F.softplus(x, beta=2.0, threshold=3.0),
    gradient=("x",),
    label="beta",
    x=floats(-2.0, 0.0, 1.0, 1.5, 2.0, 30.0),
)
_add(
    "softplus",
    lambda x: [F.softplus(x, beta=0.0), F.softplus(x, beta=0.0, threshold=-1.0)],
    label="no beta",
    x=floats(-2.0, 0.0, 1.5),
)
_WITHOUT_LIMITS = floats(-np.inf, np.inf, np.nan, -2.0, -0.25, 0.25, 2.0)
for _op, _function in (
    ("softshrink", F.softshrink),
    ("hardshrink", F.hardshrink),
    ("thresholded_relu", F.thresholded_relu),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.0)),
    ("selu", F.selu),
):
    _add(_op, _function, gradient=("x",), label="infinities", x=_WITHOUT_LIMITS)
for _op, _function in (
    ("hardshrink", F.hardshrink),
    ("relu6", F.relu6),
    ("hardtanh", lambda x: F.hardtanh(x, 0.0, 1.0)),
    ("clip", lambda x: paddle.clip(x, 0.0, 1.0)),
    ("elu", lambda x: F.elu(x, -1.0)),
):
    # The reciprocal of a zero has its sign.
    _add(
        _op,
        lambda x, f=_function: paddle.reciprocal(f(x)),
        label="signs of zeros",
        x=floats(-0.0, 0.0, -0.25, 0.25, 7.0),
    )
for _op, _label, _function in (
    ("elu", "far below zero", lambda x: F.elu(x, -1.0)),
    ("celu", "far below zero", F.celu),
    ("celu", "far below zero, alpha", lambda x: F.celu(x, 2.0)),
):
    _add(_op, _function, gradient=("x",), label=_label, x=floats(-20.0, -25.0, -40.0))
_add("celu", lambda x: F.celu(x, 0.5), label="near the largest", x=floats(-1.0, 1.0, 3e38))
_add("silu", F.silu, gradient=("x",), label="near the largest", x=floats(3e38, 3.4e38, -1.0))
_add("softshrink", F.softshrink, gradient=("x",), x=floats(-2.0, -0.5, -0.25, 0.0, 0.5, 2.0))
_add("hardshrink", F.hardshrink, gradient=("x",), x=floats(-2.0, -0.6, -0.25, 0.0, 0.4, 2.0))
_add(
    "hardshrink",
    F.hardshrink,
    gradient=("x",),
    label="bounds",
    since=Since("3.1", "the kernel makes the bounds zero"),
    x=floats(-0.5, 0.5),
)
_add(
    "thresholded_relu",
    lambda x: F.thresholded_relu(x, 0.5),
    gradient=("x",),
    x=floats(-2.0, 0.25, 0.5, 2.0),
)
_add(
    "thresholded_relu",
    lambda x: F.thresholded_relu(x, 0.5, 0.1),
    gradient=("x",),
    label="value",
    since=Since("3.0", "the function has no value for what is below the threshold"),
    x=floats(-2.0, 0.25, 0.5, 2.0),
)
_add(
    "prelu",
    F.prelu,
    gradient=("x", "alpha"),
    x=np.asarray([[-1.0, 0.0], [2.0, -3.0]], np.float32),
    alpha=floats(0.25),
)
_add(
    "prelu",
    F.prelu,
    gradient=("x", "alpha"),
    label="channel",
    x=normal(2, 3, 4),
    alpha=floats(0.1, 0.2, 0.3),
)
_add(
    "prelu",
    lambda x, alpha: F.prelu(x, alpha, data_format="NLC"),
    gradient=("x", "alpha"),
    label="channels last",
    x=normal(2, 4, 3),
    alpha=floats(0.1, 0.2, 0.3),
)
_add(
    "prelu",
    F.prelu,
    gradient=("x", "alpha"),
    label="infinities",
    x=floats([-1.0, np.inf], [2.0, -3.0]),
    alpha=floats(0.25, 0.5),
)
_add(
    "round",
    paddle.round,
    gradient=("x",),
    x=floats(-2.4, -1.6, -0.2, 0.0, 0.49999997, 1.6, 2.4, 8388609.0),
)
_add(
    "round",
    paddle.round,
    gradient=("x",),
    label="halves",
    limitation="a half goes to the even neighbour; before Paddle 3.1 it goes away from zero",
    since=Since("3.1", "the kernel rounds halves away from zero"),
    x=floats(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5),
)
_add(
    "round",
    lambda x: [paddle.round(x, 2), paddle.round(x * 100, -1)],
    gradient=("x",),
    label="decimals",
    since=Since("3.0", "the function has no decimals"),
    x=normal(3, 4),
)
_add("trunc", paddle.trunc, label="integers", x=integers(4, dtype="int32"))
_add("abs", paddle.abs, label="integers", x=integers(4, low=-3, dtype="int32"))
_add("square", paddle.square, label="integers", x=integers(4, low=-3, dtype="int32"))
_add(
    "round",
    paddle.round,
    label="integers",
    since=Since("3.1", "the function takes no integers"),
    x=integers(4, low=-3, dtype="int32"),
)
