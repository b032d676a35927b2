"""Uses of every function of ``paddle.fluid`` without parameters, with NumPy's answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_RNG = np.random.default_rng(11)


@dataclass(frozen=True)
class Case:
    """A use of one function.

    Attributes:
        name: ``layers.relu``, below ``paddle.fluid``.
        feeds: its variables, as arrays.
        call: the use; gets the function, then the variables.
        expected: NumPy's answer or answers for the arrays.
    """

    name: str
    feeds: tuple[Array, ...]
    call: Callable[..., Any]
    expected: Callable[..., Any]


def _real(*shape: int) -> Array:
    return _RNG.normal(size=shape).astype(np.float32)


X, Y = _real(2, 3), _real(2, 3)
CUBE = _real(2, 3, 4)
POSITIVE = np.abs(X) + 0.5
UNIT = np.array([[0.1, -0.4, 0.9]], np.float32)
TRUE, FALSE = np.array([True, True, False]), np.array([True, False, False])
IMAGE = _real(1, 2, 4, 4)
PROBABILITIES = np.exp(X) / np.exp(X).sum(1, keepdims=True)
LABEL = np.array([[2], [0]], np.int64)
SOFT = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], np.float32)

_erf = np.vectorize(math.erf)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


def _softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _unary(name: str, expected: Callable[..., Any], x: Array = X, **settings: Any) -> Case:
    return Case(f"layers.{name}", (x,), lambda f, v: f(v, **settings), expected)


def _binary(name: str, expected: Callable[..., Any], x: Array = X, y: Array = Y) -> Case:
    return Case(f"layers.{name}", (x, y), lambda f, a, b: f(a, b), expected)


def _case(
    name: str, feeds: Sequence[Array], call: Callable[..., Any], expected: Callable[..., Any]
) -> Case:
    return Case(name, tuple(feeds), call, expected)


_ACTIVATIONS = [
    *(
        _unary(name, getattr(np, name))
        for name in "abs ceil cos cosh exp floor sign sin sinh square tan tanh".split()
    ),
    _unary("acos", np.arccos, UNIT),
    _unary("asin", np.arcsin, UNIT),
    _unary("atan", np.arctan),
    _unary("erf", _erf),
    _unary("log", np.log, POSITIVE),
    _unary("reciprocal", lambda x: 1 / x, POSITIVE),
    _unary("round", np.round, X * 3),
    _unary("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    _unary("sqrt", np.sqrt, POSITIVE),
    _unary("relu", lambda x: np.maximum(x, 0)),
    _unary("sigmoid", _sigmoid),
    _unary("logsigmoid", lambda x: -_softplus(-x)),
    _unary("silu", lambda x: x * _sigmoid(x)),
    _unary("softplus", _softplus),
    _unary("softsign", lambda x: x / (1 + np.abs(x))),
    _unary("tanh_shrink", lambda x: x - np.tanh(x)),
    _unary("softmax", _softmax),
    _unary("softmax", lambda x: _softmax(x, 0), axis=0),
    _unary("gelu", lambda x: x * (1 + _erf(x / np.sqrt(2))) / 2),
    _unary(
        "gelu",
        lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
        approximate=True,
    ),
    _unary("leaky_relu", lambda x: np.where(x > 0, x, 0.02 * x)),
    _unary("elu", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), alpha=0.5),
    _unary("relu6", lambda x: np.clip(x, 0, 4), X * 5, threshold=4.0),
    _unary("swish", lambda x: x * _sigmoid(2 * x), beta=2.0),
    _unary("hard_sigmoid", lambda x: np.clip(0.2 * x + 0.5, 0, 1), X * 4),
    _unary("hard_swish", lambda x: x * np.clip(x + 3, 0, 6) / 6, X * 4),
    _unary("brelu", lambda x: np.clip(x, -1, 2), X * 4, t_min=-1.0, t_max=2.0),
]

_SMALL = _real(3)

_ARITHMETIC = [
    _binary("elementwise_add", np.add),
    _binary("elementwise_sub", np.subtract),
    _binary("elementwise_mul", np.multiply),
    _binary("elementwise_div", np.divide, X, POSITIVE),
    _binary("elementwise_max", np.maximum),
    _binary("elementwise_min", np.minimum),
    _binary("elementwise_pow", np.power, POSITIVE, Y),
    _binary("elementwise_mod", np.mod, np.arange(6) + 7, np.arange(6) + 2),
    _binary("elementwise_floordiv", np.floor_divide, np.arange(6) + 7, np.arange(6) + 2),
    _case(
        "layers.elementwise_add",
        [CUBE, _SMALL],
        lambda f, x, y: f(x, y, axis=1, act="relu"),
        lambda x, y: np.maximum(x + y.reshape(1, 3, 1), 0),
    ),
    _case(
        "layers.elementwise_mul",
        [CUBE, _real(3, 1)],
        lambda f, x, y: f(x, y, axis=1),
        lambda x, y: x * y,
    ),
    _case(
        "layers.elementwise_sub",
        [_SMALL, CUBE],
        lambda f, x, y: f(x, y, axis=1),
        lambda x, y: x.reshape(1, 3, 1) - y,
    ),
    _case(
        "layers.elementwise_add",
        [CUBE, _real(2, 3, 1, 1)[:, :, 0]],
        lambda f, x, y: f(x, y, axis=0),
        lambda x, y: x + y,
    ),
    *(
        _binary(name, expected, np.array([1, 2, 3]), np.array([3, 2, 1], np.int32))
        for name, expected in {
            "equal": np.equal,
            "not_equal": np.not_equal,
            "greater_than": np.greater,
            "greater_equal": np.greater_equal,
            "less_than": np.less,
            "less_equal": np.less_equal,
        }.items()
    ),
    _binary("logical_and", np.logical_and, TRUE, FALSE),
    _binary("logical_or", np.logical_or, TRUE, FALSE),
    _binary("logical_xor", np.logical_xor, TRUE, FALSE),
    _unary("logical_not", np.logical_not, TRUE),
    *(
        _unary(f"reduce_{name}", getattr(np, name), CUBE)
        for name in "sum mean max min prod".split()
    ),
    _unary("reduce_all", np.all, TRUE),
    _unary("reduce_any", np.any, FALSE),
    _unary("reduce_sum", lambda x: x.sum((0, 2)), CUBE, dim=[0, 2]),
    _unary("reduce_mean", lambda x: x.mean(1, keepdims=True), CUBE, dim=1, keep_dim=True),
    _unary("reduce_max", np.max, CUBE, dim=[]),
    _unary("mean", np.mean),
    _case("layers.sum", [X, Y], lambda f, x, y: f([x, y]), np.add),
    _case("layers.sums", [X, Y], lambda f, x, y: f([x, y]), np.add),
    _unary("pow", lambda x: x**3, X, factor=3.0),
    _unary("scale", lambda x: 2 * x + 1, scale=2.0, bias=1.0),
    _unary(
        "scale",
        lambda x: np.tanh(2 * (x + 1)),
        scale=2.0,
        bias=1.0,
        bias_after_scale=False,
        act="tanh",
    ),
    _unary("clip", lambda x: np.clip(x, -0.5, 0.5), min=-0.5, max=0.5),
    _unary("cumsum", lambda x: x.cumsum(-1), CUBE),
    _unary("cumsum", lambda x: x.cumsum(1) - x, CUBE, axis=1, exclusive=True),
    _unary("cumsum", lambda x: x[..., ::-1].cumsum(-1)[..., ::-1], CUBE, reverse=True),
    _unary(
        "cumsum",
        lambda x: x[::-1].cumsum(0)[::-1] - x,
        CUBE,
        axis=0,
        exclusive=True,
        reverse=True,
    ),
    _case(
        "layers.matmul",
        [X, Y],
        lambda f, x, y: f(x, y, transpose_y=True, alpha=0.5),
        lambda x, y: 0.5 * x @ y.T,
    ),
    _case("layers.mul", [X, _real(3, 4)], lambda f, x, y: f(x, y), np.matmul),
    _case(
        "layers.mul",
        [CUBE, _real(4, 1, 5)],
        lambda f, x, y: f(x, y, x_num_col_dims=2, y_num_col_dims=1),
        lambda x, y: (x.reshape(6, 4) @ y.reshape(4, 5)).reshape(2, 3, 1, 5),
    ),
]

_IDS = np.array([[1], [3], [0]], np.int64)
_FLAT_IDS = _IDS[:, 0]

_TENSORS = [
    _unary("assign", lambda x: x),
    _unary("cast", lambda x: x.astype(np.int32), X * 5, dtype="int32"),
    _case(
        "layers.fill_constant",
        [X],
        lambda f, x: f([2, 2], "float32", "0.25"),
        lambda x: np.full((2, 2), 0.25, np.float32),
    ),
    _case(
        "layers.fill_constant",
        [X],
        lambda f, x: f([3], "int64", 7),
        lambda x: np.full(3, 7),
    ),
    _case("layers.zeros", [X], lambda f, x: f([2], "float32"), lambda x: np.zeros(2, np.float32)),
    _case("layers.ones", [X], lambda f, x: f([2], "float32"), lambda x: np.ones(2, np.float32)),
    _unary("zeros_like", np.zeros_like),
    _unary("ones_like", np.ones_like),
    _case("layers.range", [X], lambda f, x: f(1, 7, 2, "int32"), lambda x: np.arange(1, 7, 2)),
    _unary("increment", lambda x: x + 2, _real(1), value=2.0, in_place=False),
    _unary("reshape", lambda x: x.reshape(2, 12), CUBE, shape=[0, -1]),
    _unary("reshape", lambda x: np.maximum(x.reshape(4, 6), 0), CUBE, shape=[4, 6], act="relu"),
    _unary("flatten", lambda x: x.reshape(2, 12), CUBE),
    _unary("flatten", lambda x: x.reshape(6, 4), CUBE, axis=2),
    _unary("flatten", lambda x: x.reshape(1, 24), CUBE, axis=0),
    _unary("flatten", lambda x: x.reshape(24, 1), CUBE, axis=3),
    _unary("squeeze", lambda x: x[:, 0], CUBE[:, :1], axes=[1]),
    _unary("squeeze", lambda x: x[:, 0], CUBE[:, :1], axes=[]),
    _unary("unsqueeze", lambda x: x[:, None, :], axes=[1]),
    _unary("transpose", lambda x: x.transpose(2, 0, 1), CUBE, perm=[2, 0, 1]),
    _case(
        "layers.concat",
        [X, Y],
        lambda f, x, y: f([x, y], axis=1),
        lambda x, y: np.concatenate([x, y], 1),
    ),
    _case(
        "layers.stack",
        [X, Y],
        lambda f, x, y: f([x, y], axis=1),
        lambda x, y: np.stack([x, y], 1),
    ),
    _unary("unstack", lambda x: [x[:, 0], x[:, 1], x[:, 2]], axis=1),
    _unary("split", lambda x: np.split(x, 2, -1), CUBE, num_or_sections=2),
    _unary("split", lambda x: [x[:, :1], x[:, 1:]], CUBE, num_or_sections=[1, 2], dim=1),
    _unary("slice", lambda x: x[:, 1:3, :2], CUBE, axes=[1, 2], starts=[1, 0], ends=[3, 2]),
    _unary(
        "strided_slice",
        lambda x: x[:, :, 0:4:2],
        CUBE,
        axes=[2],
        starts=[0],
        ends=[4],
        strides=[2],
    ),
    _unary("expand", lambda x: np.tile(x, (2, 3)), expand_times=[2, 3]),
    _unary(
        "pad",
        lambda x: np.pad(x, ((0, 1), (2, 3)), constant_values=9.0),
        paddings=[0, 1, 2, 3],
        pad_value=9.0,
    ),
    _case("layers.gather", [CUBE, np.array([1, 0, 1])], lambda f, x, i: f(x, i), lambda x, i: x[i]),
    _case(
        "layers.gather_nd",
        [CUBE, np.array([[1, 2], [0, 0]])],
        lambda f, x, i: f(x, i),
        lambda x, i: x[i[:, 0], i[:, 1]],
    ),
    _unary("where", np.argwhere, FALSE),
    _unary("topk", lambda x: (np.sort(x)[:, ::-1][:, :2], np.argsort(-x)[:, :2]), k=2),
    _unary("argsort", lambda x: (np.sort(x), np.argsort(x))),
    _unary("argsort", lambda x: (-np.sort(-x, 0), np.argsort(-x, 0)), axis=0, descending=True),
    _unary("argmax", lambda x: x.argmax(0)),
    _unary("argmin", lambda x: x.argmin(0)),
    _unary("one_hot", lambda x: np.eye(4, dtype=np.float32)[x[:, 0]], _IDS, depth=4),
    _unary(
        "one_hot",
        lambda x: np.eye(4, dtype=np.float32)[x[:, 0]][:, :2],
        _IDS,
        depth=2,
        allow_out_of_range=True,
    ),
    *(
        Case(
            name,
            (_FLAT_IDS,),
            lambda f, x: f(x, 4),
            lambda x: np.eye(4, dtype=np.float32)[x],
        )
        for name in ("input.one_hot", "one_hot")
    ),
    Case("nets.glu", (CUBE,), lambda f, x: f(x), lambda x: x[..., :2] * _sigmoid(x[..., 2:])),
]


def _attention(q: Array, k: Array, v: Array) -> Array:
    out = []
    for head in range(2):
        a, b, c = (x[..., head * 2 : head * 2 + 2] for x in (q, k, v))
        out.append(_softmax(a @ b.transpose(0, 2, 1) / np.sqrt(2)) @ c)
    return np.concatenate(out, -1)


def _log_loss(p: Array, y: Array) -> Array:
    return -y * np.log(p + 1e-4) - (1 - y) * np.log(1 - p + 1e-4)


_BINARY = np.array([[1, 0, 1], [0, 0, 1]], np.float32)
_IGNORING = np.array([[1, -1, 1], [0, 0, -1]], np.float32)


def _binary_loss(x: Array, y: Array, ignored: float = -100) -> Array:
    return np.where(y == ignored, 0, np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x))))


_LOSSES = [
    _case(
        "layers.cross_entropy",
        [PROBABILITIES, LABEL],
        lambda f, p, y: f(p, y),
        lambda p, y: -np.log(np.take_along_axis(p, y, 1)),
    ),
    _case(
        "layers.cross_entropy",
        [PROBABILITIES, LABEL],
        lambda f, p, y: f(p, y, ignore_index=2),
        lambda p, y: np.where(y == 2, 0, -np.log(np.take_along_axis(p, y, 1))),
    ),
    _case(
        "layers.cross_entropy",
        [PROBABILITIES, SOFT],
        lambda f, p, y: f(p, y, soft_label=True),
        lambda p, y: -(y * np.log(p)).sum(1, keepdims=True),
    ),
    _case(
        "layers.softmax_with_cross_entropy",
        [X, LABEL],
        lambda f, x, y: f(x, y),
        lambda x, y: -np.log(np.take_along_axis(_softmax(x), y, 1)),
    ),
    _case(
        "layers.softmax_with_cross_entropy",
        [X, LABEL],
        lambda f, x, y: f(x, y, return_softmax=True),
        lambda x, y: (-np.log(np.take_along_axis(_softmax(x), y, 1)), _softmax(x)),
    ),
    _binary("square_error_cost", lambda x, y: (x - y) ** 2),
    _binary("mse_loss", lambda x, y: ((x - y) ** 2).mean()),
    _binary("log_loss", _log_loss, PROBABILITIES[:, :1], _BINARY[:, :1]),
    _binary("sigmoid_cross_entropy_with_logits", _binary_loss, X, _BINARY),
    _case(
        "layers.sigmoid_cross_entropy_with_logits",
        [X, _IGNORING],
        lambda f, x, y: f(x, y, ignore_index=-1, normalize=True),
        lambda x, y: _binary_loss(x, y, -1) / 4,
    ),
    _unary("identity_loss", np.mean, reduction="mean"),
    _unary("label_smooth", lambda y: 0.8 * y + 0.2 / 3, SOFT, epsilon=0.2),
    _unary("dropout", lambda x: 0.75 * x, dropout_prob=0.25, is_test=True),
    _unary(
        "dropout",
        lambda x: x,
        dropout_prob=0.25,
        is_test=True,
        dropout_implementation="upscale_in_train",
    ),
    _unary("dropout", lambda x: x, dropout_prob=0.0),
    _unary(
        "l2_normalize",
        lambda x: x / np.sqrt((x**2).sum(1, keepdims=True) + 0.5),
        axis=1,
        epsilon=0.5,
    ),
    _case(
        "nets.scaled_dot_product_attention",
        [_real(2, 3, 4), _real(2, 5, 4), _real(2, 5, 4)],
        lambda f, q, k, v: f(q, k, v, num_heads=2),
        _attention,
    ),
]


def _windows(x: Array, reduce: Callable[..., Any]) -> Array:
    return reduce(x.reshape(1, 2, 2, 2, 2, 2), (3, 5))


_POOLING = [
    _unary("pool2d", lambda x: _windows(x, np.max), IMAGE, pool_size=2, pool_stride=2),
    _unary(
        "pool2d",
        lambda x: _windows(x, np.mean),
        IMAGE,
        pool_size=2,
        pool_stride=2,
        pool_type="avg",
    ),
    _unary(
        "pool2d",
        lambda x: x.mean((2, 3), keepdims=True),
        IMAGE,
        pool_type="avg",
        global_pooling=True,
    ),
    _unary("adaptive_pool2d", lambda x: _windows(x, np.max), IMAGE, pool_size=2),
    _unary(
        "adaptive_pool2d", lambda x: _windows(x, np.mean), IMAGE, pool_size=[2, 2], pool_type="avg"
    ),
]

CASES = [*_ACTIVATIONS, *_ARITHMETIC, *_TENSORS, *_LOSSES, *_POOLING]
"""Every use, without those of layers that make parameters or feeds."""
