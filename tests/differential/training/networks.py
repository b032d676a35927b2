"""Layers, losses and feeds of small networks. Any layer follows any other: shapes are adapted.

A layer is made of (network so far, its input) and of its settings; a loss of the predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F  # noqa: N812 - Paddle's own abbreviation
from paddle.regularizer import L1Decay, L2Decay

from tests.differential.training.choices import Choice, Table

LAYERS, LOSSES, SOURCES = Table(), Table(), Table()

FLAG = (False, True)
CLASSES = 3

ATTRIBUTES: tuple[Mapping[str, Any] | None, ...] = (
    None,
    {"learning_rate": 0.5},
    {"learning_rate": 3.0, "L2": 0.05},
    {"L1": 0.02},
    {"need_clip": False},
    {"need_clip": False, "L2": 0.0},
    {"trainable": False},
    {"learning_rate": 0.0},
)
"""What a parameter is given of its own."""


@dataclass
class Network:
    """A network while it is built.

    Attributes:
        rows: of a micro-batch.
        sparse: whether gradients may be of rows alone.
        parts: of the loss, beside that of the predictions.
        shared: parameters by their size, which several layers read.
    """

    rows: int
    sparse: bool = True
    parts: list[Any] = field(default_factory=list)
    shared: dict[int, Any] = field(default_factory=dict)
    made: int = 0

    def parameter(self, shape: list[int], own: Mapping[str, Any] | None = None) -> Any:
        """A parameter of no layer, named here: Paddle's names for these count all programs."""
        self.made += 1
        attr = attribute({"name": f"parameter_{self.made}", **(own or {})})
        return paddle.create_parameter(shape, paddle.get_default_dtype(), attr=attr)

    def differentiable(self, x: Any) -> Any:
        """What goes into a layer whose backward Paddle cannot run without a gradient of that."""
        return x * self.parameter([1]) if x.stop_gradient else x

    def is_of_one(self, x: Any) -> bool:
        """Whether a channel has one number, of which Paddle computes no gradient of the bias."""
        return self.rows == 1 and all(side == 1 for side in x.shape[2:])


def attribute(own: Mapping[str, Any] | None) -> Any:
    """A ``ParamAttr`` of a row of :data:`ATTRIBUTES`."""
    if own is None:
        return None
    given = dict(own)
    for name, kind in (("L1", L1Decay), ("L2", L2Decay)):
        if name in given:
            given["regularizer"] = kind(given.pop(name))
    return paddle.ParamAttr(**given)


def flat(x: Any) -> Any:
    """[rows, numbers]."""
    return x if len(x.shape) == 2 else paddle.flatten(x, 1)


def sequence(x: Any) -> Any:
    """[rows, places, numbers]."""
    if len(x.shape) == 2:
        return paddle.unsqueeze(x, 1)
    return x if len(x.shape) == 3 else paddle.transpose(paddle.flatten(x, 2), [0, 2, 1])


def image(x: Any) -> Any:
    """[rows, channels, height, width]."""
    if len(x.shape) == 2:
        return paddle.reshape(x, [0, x.shape[1], 1, 1])
    return x if len(x.shape) == 4 else paddle.unsqueeze(x, 1)


# -- what goes in ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """What the network is fed as ``x``.

    Attributes:
        shape: of a row.
        words: ``x`` is numbers of words below it, and floats where it is 0.
    """

    shape: list[int]
    words: int = 0


@SOURCES.row("rows", width=(4, 1, 7))
def _rows(width: int) -> Source:
    return Source([width])


@SOURCES.row("images", channels=(2, 1, 4), height=(5, 3, 6), width=(5, 4, 1))
def _images(channels: int, height: int, width: int) -> Source:
    return Source([channels, height, width])


@SOURCES.row("tokens", length=(4, 1, 6), words=(7, 3))
def _tokens(length: int, words: int) -> Source:
    return Source([length], words)


@SOURCES.row("places", length=(4, 1, 6), width=(4, 3))
def _places(length: int, width: int) -> Source:
    return Source([length, width])


# -- layers ---------------------------------------------------------------------------------------


@LAYERS.row("linear", width=(4, 1, 6), bias=(True, False), own=ATTRIBUTES, own_bias=ATTRIBUTES)
def _linear(_: Network, x: Any, width: int, bias: bool, own: Any, own_bias: Any) -> Any:
    x = flat(x) if len(x.shape) == 4 else x
    bias_attr = attribute(own_bias) if bias else False
    return nn.Linear(x.shape[-1], width, attribute(own), bias_attr)(x)


ACTIVATIONS = (
    "tanh", "relu", "sigmoid", "gelu", "silu", "softplus", "leaky_relu", "elu", "selu", "celu",
    "hardswish", "hardsigmoid", "hardtanh", "mish", "softsign", "tanhshrink", "softshrink",
    "hardshrink", "relu6", "swish", "log_sigmoid", "thresholded_relu", "softmax", "log_softmax",
)  # fmt: skip


@LAYERS.row("activation", kind=ACTIVATIONS)
def _activation(_: Network, x: Any, kind: str) -> Any:
    return getattr(F, kind)(x)


# Of a frozen scale Paddle's CPU kernels leave the scale out of the operand's gradient, or make none
# of the bias.
TRAINED = tuple(
    own for own in ATTRIBUTES if own not in ({"trainable": False}, {"learning_rate": 0.0})
)


@LAYERS.row("layer norm", own=TRAINED, own_bias=ATTRIBUTES, epsilon=(1e-5, 1e-3), deep=FLAG)
def _layer_norm(_: Network, x: Any, own: Any, own_bias: Any, epsilon: float, deep: bool) -> Any:
    shape = x.shape[1:] if deep else x.shape[-1:]
    attributes = {"weight_attr": attribute(own), "bias_attr": attribute(own_bias)}
    return nn.LayerNorm(shape, epsilon, **attributes)(x)


@LAYERS.row(
    "batch norm", momentum=(0.9, 0.5, 0.0), epsilon=(1e-5, 1e-2), own=TRAINED,
    own_bias=TRAINED, statistics=(None, True, False),
)  # fmt: skip
def _batch_norm(
    network: Network, x: Any, momentum: float, epsilon: float, own: Any, own_bias: Any,
    statistics: Any,
) -> Any:  # fmt: skip
    kind = {2: nn.BatchNorm1D, 3: nn.BatchNorm1D, 4: nn.BatchNorm2D}[len(x.shape)]
    attributes = (attribute(own), attribute(own_bias))
    statistics = network.is_of_one(x) or statistics
    return kind(x.shape[1], momentum, epsilon, *attributes, use_global_stats=statistics)(x)


@LAYERS.row("group norm", groups=(1, 2), own=ATTRIBUTES)
def _group_norm(_: Network, x: Any, groups: int, own: Any) -> Any:
    x = image(x)
    groups = groups if x.shape[1] % groups == 0 else 1
    return nn.GroupNorm(groups, x.shape[1], weight_attr=attribute(own))(x)


@LAYERS.row("instance norm", own=TRAINED)
def _instance_norm(network: Network, x: Any, own: Any) -> Any:
    x = image(network.differentiable(x))
    return nn.InstanceNorm2D(x.shape[1], weight_attr=attribute(own))(x)


@LAYERS.row(
    "convolution", channels=(2, 1, 4), kernel=(3, 1, 2), stride=(1, 2), dilation=(1, 2),
    grouped=FLAG, padding_mode=("zeros", "reflect", "replicate", "circular"), bias=(True, False),
    own=ATTRIBUTES,
)  # fmt: skip
def _convolution(
    _: Network, x: Any, channels: int, kernel: int, stride: int, dilation: int, grouped: bool,
    padding_mode: str, bias: bool, own: Any,
) -> Any:  # fmt: skip
    x = image(x)
    groups = x.shape[1] if grouped else 1
    padding = min(dilation * (kernel - 1), *(side - 1 for side in x.shape[2:]))
    if padding_mode == "zeros":
        padding = dilation * (kernel - 1)
    elif 2 * padding + min(x.shape[2:]) < dilation * (kernel - 1) + 1:
        kernel = 1
    return nn.Conv2D(
        x.shape[1], channels * groups, kernel, stride, padding, dilation, groups,
        padding_mode=padding_mode, weight_attr=attribute(own), bias_attr=None if bias else False,
    )(x)  # fmt: skip


@LAYERS.row("transposed convolution", channels=(2, 1), kernel=(2, 3, 1), stride=(1, 2))
def _transposed_convolution(_: Network, x: Any, channels: int, kernel: int, stride: int) -> Any:
    x = image(x)
    return nn.Conv2DTranspose(x.shape[1], channels, kernel, stride)(x)


@LAYERS.row("convolution over places", channels=(3, 1), kernel=(3, 1))
def _convolution_over_places(_: Network, x: Any, channels: int, kernel: int) -> Any:
    x = sequence(x)
    made = nn.Conv1D(x.shape[2], channels, kernel, padding=kernel // 2, data_format="NLC")
    return made(x)


@LAYERS.row("pooling", kind=("avg", "max", "adaptive avg", "adaptive max"), ceil=FLAG)
def _pooling(_: Network, x: Any, kind: str, ceil: bool) -> Any:
    x = image(x)
    if kind.startswith("adaptive"):
        made = nn.AdaptiveAvgPool2D if kind == "adaptive avg" else nn.AdaptiveMaxPool2D
        return made((2, 1))(x)
    sides = [min(2, side) for side in x.shape[2:]]
    made = nn.AvgPool2D if kind == "avg" else nn.MaxPool2D
    return made(sides, ceil_mode=ceil)(x)


@LAYERS.row("attention", heads=(1, 2), causal=FLAG, bias=(True, False))
def _attention(_: Network, x: Any, heads: int, causal: bool, bias: bool) -> Any:
    x = sequence(x)
    length, width = x.shape[1:]
    size = 2 * heads
    bias_attr = None if bias else False

    def part() -> Any:
        made = nn.Linear(width, size, bias_attr=bias_attr)(x)
        return paddle.transpose(paddle.reshape(made, [0, length, heads, 2]), [0, 2, 1, 3])

    scores = paddle.matmul(part(), part(), transpose_y=True) * 2**-0.5
    if causal:
        scores = scores + paddle.triu(paddle.full([length, length], -1e4), 1)
    read = paddle.matmul(F.softmax(scores), part())
    joined = paddle.reshape(paddle.transpose(read, [0, 2, 1, 3]), [0, length, size])
    return x + nn.Linear(size, width)(joined)


@LAYERS.row("encoder", heads=(1, 2), before=FLAG, activation=("relu", "gelu"))
def _encoder(_: Network, x: Any, heads: int, before: bool, activation: str) -> Any:
    x = sequence(x)
    width = x.shape[2]
    heads = heads if width % heads == 0 else 1
    made = nn.TransformerEncoderLayer(
        width, heads, 5, dropout=0.0, activation=activation, normalize_before=before
    )
    return made(x)


@LAYERS.row("recurrent", kind=("SimpleRNN", "GRU", "LSTM"), both=FLAG)
def _recurrent(_: Network, x: Any, kind: str, both: bool) -> Any:
    x = sequence(x)
    made = getattr(nn, kind)(x.shape[2], 3, direction="bidirect" if both else "forward")
    return made(x)[0]


@LAYERS.row(
    "static layer",
    kind=("fc", "batch_norm", "layer_norm", "conv2d", "group_norm", "prelu"),
    act=(None, "relu", "tanh"),
    own=ATTRIBUTES,
)
def _static_layer(network: Network, x: Any, kind: str, act: str | None, own: Any) -> Any:
    """One of ``paddle.static.nn``."""
    # In PIR programs Paddle counts these layers' names through all programs of the process.
    name = paddle.utils.unique_name.generate(kind)
    made, attr = partial(getattr(paddle.static.nn, kind), name=name), attribute(own)
    if kind == "fc":
        return made(flat(x), 3, weight_attr=attr, activation=act)
    if kind == "prelu":
        return made(network.differentiable(x), "all", param_attr=attr)
    if kind == "conv2d":
        return made(image(x), 2, 1, act=act, param_attr=attr)
    x = image(x) if kind == "group_norm" else x
    attr = attribute(own if own in TRAINED else None)
    given: dict[str, Any] = {}
    if kind == "group_norm":
        # Without a scale Paddle's kernel leaves a term of the operand's gradient out.
        attr, given = attr or paddle.ParamAttr(), {"groups": 1}
    if kind == "batch_norm" and network.is_of_one(x):
        given = {"use_global_stats": True}
    return made(x, act=act, param_attr=attr, **given)


@LAYERS.row("residual", own=ATTRIBUTES)
def _residual(_: Network, x: Any, own: Any) -> Any:
    x = flat(x) if len(x.shape) == 4 else x
    return x + paddle.tanh(nn.Linear(x.shape[-1], x.shape[-1], attribute(own))(x))


@LAYERS.row("shared product", turned=FLAG)
def _shared_product(network: Network, x: Any, turned: bool) -> Any:
    width = x.shape[-1]
    if width not in network.shared:
        network.shared[width] = network.parameter([width, width])
    return paddle.matmul(x, network.shared[width], transpose_y=turned)


@LAYERS.row("gate")
def _gate(_: Network, x: Any) -> Any:
    x = flat(x) if len(x.shape) == 4 else x
    return x * F.sigmoid(nn.Linear(x.shape[-1], x.shape[-1])(x))


@LAYERS.row("branches", join=("concat", "add", "maximum", "multiply"))
def _branches(_: Network, x: Any, join: str) -> Any:
    x = flat(x) if len(x.shape) == 4 else x
    one, other = (nn.Linear(x.shape[-1], 3)(x) for _ in range(2))
    return (
        paddle.concat([one, other], -1) if join == "concat" else getattr(paddle, join)(one, other)
    )


@LAYERS.row("factor", own=ATTRIBUTES, size=("all", "one"))
def _factor(network: Network, x: Any, own: Any, size: str) -> Any:
    return x * network.parameter([x.shape[-1] if size == "all" else 1], own)


@LAYERS.row("prelu", every=FLAG)
def _prelu(network: Network, x: Any, every: bool) -> Any:
    x = network.differentiable(x)
    return nn.PReLU(x.shape[1] if every else 1)(x)


@LAYERS.row("reshaped", how=("flatten", "mean", "max", "last", "norm"))
def _reshaped(_: Network, x: Any, how: str) -> Any:
    if how == "flatten" or len(x.shape) == 2:
        return flat(x)
    if how == "last":
        return x[:, -1]
    if how == "norm":
        # Of one number it is the sign, the gradient of which is rounding alone.
        return F.normalize(x, axis=1) if x.shape[1] > 1 else x
    return getattr(paddle, how)(x, 1)


@LAYERS.row("detached", kind=("half", "all"))
def _detached(_: Network, x: Any, kind: str) -> Any:
    if kind == "half":
        return x + x.detach()
    # Of a detached tensor Paddle's executor computes tanh in place, where the tensor itself is.
    return x * 0.5 + paddle.tanh(x).detach()


@LAYERS.row("side loss", kind=("square", "abs"))
def _side_loss(network: Network, x: Any, kind: str) -> Any:
    network.parts.append(0.1 * paddle.mean(getattr(paddle, kind)(x)))
    return x


@LAYERS.row("embedding of signs", width=(3, 1), padding=(None, 1), sparse=FLAG)
def _embedding_of_signs(
    network: Network, x: Any, width: int, padding: int | None, sparse: bool
) -> Any:
    x = flat(x)
    ids = paddle.cast(x > 0, "int64")
    return nn.Embedding(2, width, padding, sparse=sparse and network.sparse)(ids)


# -- losses: of (scores of classes, feeds of labels) ----------------------------------------------


@LOSSES.row(
    "cross entropy", reduction=("mean", "sum", "none"), ignored=FLAG, smoothing=(0.0, 0.1),
    soft=FLAG, weighted=FLAG,
)  # fmt: skip
def _cross_entropy(
    scores: Any, labels: Any, targets: Any, reduction: str, ignored: bool, smoothing: float,
    soft: bool, weighted: bool,
) -> Any:  # fmt: skip
    given: dict[str, Any] = {"reduction": reduction}
    if weighted:
        given["weight"] = paddle.assign(np.array([0.5, 1.0, 2.0], paddle.get_default_dtype()))
    if soft or smoothing:
        # Labels that are smoothed have to be soft ones in Paddle 3.3.
        labels, given["soft_label"] = F.softmax(targets), True
        given["label_smoothing"] = smoothing
    elif ignored:
        given["ignore_index"] = 1
    return F.cross_entropy(scores, labels, **given)


@LOSSES.row("nll", reduction=("mean", "sum", "none"), ignored=FLAG)
def _nll(scores: Any, labels: Any, targets: Any, reduction: str, ignored: bool) -> Any:
    found, classes = F.log_softmax(scores), paddle.flatten(labels)
    if not ignored:
        return F.nll_loss(found, classes, reduction=reduction)
    # Paddle's CPU kernel writes past a reduced result where a label is left out.
    losses = F.nll_loss(found, classes, ignore_index=1, reduction="none")
    return {"mean": paddle.mean, "sum": paddle.sum, "none": lambda x: x}[reduction](losses)


def _of_targets(name: str, **values: tuple[Any, ...]) -> None:
    @LOSSES.row(name, reduction=("mean", "sum", "none"), **values)
    def _(scores: Any, labels: Any, targets: Any, **settings: Any) -> Any:
        return getattr(F, name)(scores, targets, **settings)


_of_targets("mse_loss")
_of_targets("l1_loss")
_of_targets("smooth_l1_loss", delta=(1.0, 0.3))


@LOSSES.row("bce", reduction=("mean", "sum", "none"), raw=(True, False))
def _bce(scores: Any, labels: Any, targets: Any, reduction: str, raw: bool) -> Any:
    wanted = F.sigmoid(targets)
    if raw:
        return F.binary_cross_entropy_with_logits(scores, wanted, reduction=reduction)
    return F.binary_cross_entropy(F.sigmoid(scores), wanted, reduction=reduction)


@LOSSES.row("kl", reduction=("batchmean", "mean", "sum", "none"))
def _kl(scores: Any, labels: Any, targets: Any, reduction: str) -> Any:
    return F.kl_div(F.log_softmax(scores), F.softmax(targets), reduction=reduction)


@LOSSES.row("hinge", power=(1, 2))
def _hinge(scores: Any, labels: Any, targets: Any, power: int) -> Any:
    return paddle.mean(F.relu(1.0 - paddle.sign(targets) * scores) ** power)


@LOSSES.row("cosine")
def _cosine(scores: Any, labels: Any, targets: Any) -> Any:
    return 1.0 - paddle.mean(F.cosine_similarity(scores, targets))


@LOSSES.row("tokens", reduction=("mean", "sum"))
def _tokens_loss(scores: Any, labels: Any, targets: Any, reduction: str) -> Any:
    spread = paddle.expand(paddle.unsqueeze(labels, 1), [-1, scores.shape[1], 1])
    return F.cross_entropy(scores, spread, reduction=reduction)


def scores_of(choice: Choice, x: Any) -> Any:
    """Scores of the classes that a loss takes, [rows, classes] or [rows, places, classes]."""
    x = sequence(x) if choice.name == "tokens" else flat(x)
    return nn.Linear(x.shape[-1], CLASSES)(x)


def loss_of(choice: Choice, network: Network, scores: Any, labels: Any, targets: Any) -> Any:
    """The loss with its side losses, one number."""
    loss = LOSSES.make(choice, scores, labels, targets)
    if choice.settings.get("reduction") == "none":
        loss = paddle.mean(loss)
    for part in network.parts:
        loss = loss + part
    return loss
