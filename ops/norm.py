"""Translators of normalisation, softmax and dropout."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, inverse_order, product
from paddle_ipu.ops.image_layout import (
    channels_back,
    channels_first,
    is_channels_last,
    per_channel,
)
from paddle_ipu.ops.registry import translator


def _last_axis_op(context: TranslationContext, builder_name: str) -> str:
    """A PopART operator along the last axis, to which the node's axis is moved."""
    x = context.input("x")
    if context.rank(x) == 0:
        vector = getattr(context.onnx, builder_name)([context.reshape(x, [1])], 0)
        return context.reshape(vector, [])
    axis = int(context.attr("axis", -1))
    moved = context.axis_last(x, axis)
    result = getattr(context.onnx, builder_name)([moved], context.rank(x) - 1)
    return context.last_axis_back(result, axis)


@translator("softmax", emits=("Softmax", "Transpose", "Reshape"))
def softmax(context: TranslationContext) -> str:
    """``exp(x) / sum(exp(x))`` along ``axis``."""
    return _last_axis_op(context, "softmax")


@translator(
    "log_softmax",
    emits=("LogSoftmax", "Transpose", "Reshape"),
    limits="a logit more than 64 below the largest counts as it is; Paddle's CPU kernel takes it "
    "for 64 below",
)
def log_softmax(context: TranslationContext) -> str:
    """``x - log(sum(exp(x)))`` along ``axis``."""
    return _last_axis_op(context, "logsoftmax")


@translator(
    "layer_norm",
    emits=("graphcore.GroupNormalization", "Reshape"),
    limits="the mean and variance results cannot be read",
)
def layer_norm(context: TranslationContext) -> list[str | None]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over trailing axes.

    They begin at ``begin_norm_axis`` (arXiv:1607.06450). Expressed as PopART's GroupNormalization
    of [rows, columns] with one group.
    """
    _refuse_statistics(context)
    axis, epsilon = int(context.attr("begin_norm_axis", 1)), float(context.attr("epsilon", 1e-5))
    scale, bias = context.optional("scale"), context.optional("bias")
    normal = layer_normalized(context, context.input("x"), axis, scale, bias, epsilon)
    return [normal, None, None]


def layer_normalized(
    context: TranslationContext,
    x: str,
    axis: int,
    scale: str | None,
    bias: str | None,
    epsilon: float,
) -> str:
    """Layer normalisation over the trailing axes.

    Args:
        context: of the node.
        x: the tensor.
        axis: the first of the normalised axes.
        scale: one factor for each normalised element; None for ones.
        bias: one addend for each; None for zeros.
        epsilon: added to the variance.
    """
    shape = context.shape(x)
    if not -len(shape) <= axis < len(shape):
        raise context.refuse(f"begin_norm_axis {axis} is none of {shape}, the shape of x.")
    axis %= len(shape)
    rows, columns = product(shape[:axis]), product(shape[axis:])
    scale, bias = _scale_and_bias(context, scale, bias, columns, context.dtype(x))
    flat = context.reshape(x, [rows, columns])
    vectors = [context.reshape(vector, [columns]) for vector in (scale, bias)]
    normal = context.graphcore.groupnormalization([flat, *vectors], 1, epsilon)[0]
    return context.reshape(normal, shape)


def group_normalized(context: TranslationContext, x: str, groups: int) -> str:
    """Group normalisation (arXiv:1803.08494) by the node's scale, bias and epsilon.

    Args:
        context: of the node.
        x: the tensor [N, C, ...].
        groups: how many groups the channels form.
    """
    scale, bias = context.optional("scale"), context.optional("bias")
    vectors = _scale_and_bias(context, scale, bias, context.shape(x)[1], context.dtype(x))
    epsilon = float(context.attr("epsilon", 1e-5))
    return context.graphcore.groupnormalization([x, *vectors], groups, epsilon)[0]


def _scale_and_bias(
    context: TranslationContext, scale: str | None, bias: str | None, count: int, dtype: str
) -> tuple[str, str]:
    """Both; ones and zeros if omitted, since PopART requires them."""
    scale = context.const(np.ones(count), dtype) if scale is None else scale
    return scale, context.const(np.zeros(count), dtype) if bias is None else bias


def _refuse_statistics(context: TranslationContext) -> None:
    if context.is_used(1) or context.is_used(2):
        raise context.refuse("its mean and variance results cannot be read; compute them apart.")


def _grouped(context: TranslationContext, groups: int, last: bool) -> list[str | None]:
    _refuse_statistics(context)
    normal = group_normalized(context, channels_first(context, context.input("x"), last), groups)
    return [channels_back(context, normal, last), None, None]


_UNREAD = "the mean and variance results cannot be read"


@translator("group_norm", emits=("graphcore.GroupNormalization", "Transpose"), limits=_UNREAD)
def group_norm(context: TranslationContext) -> list[str | None]:
    """Normalises each sample over groups of channels (arXiv:1803.08494)."""
    return _grouped(context, int(context.attr("groups", 1)), is_channels_last(context))


@translator("instance_norm", emits=("graphcore.GroupNormalization",), limits=_UNREAD)
def instance_norm(context: TranslationContext) -> list[str | None]:
    """Normalises each channel of each sample (arXiv:1607.08022)."""
    return _grouped(context, context.shape(context.input("x"))[1], last=False)


@translator("affine_channel", emits=("Mul", "Add", "Reshape"))
def affine_channel(context: TranslationContext) -> str:
    """``x * scale + bias`` for each channel."""
    x, last = context.input("x"), is_channels_last(context, "data_layout")
    rank = context.rank(x)
    scale, bias = (
        per_channel(context, context.input(name), rank, last) for name in ("scale", "bias")
    )
    return context.onnx.add([context.onnx.mul([x, scale]), bias])


@translator(
    "spectral_norm",
    emits=("Reshape", "Transpose", "MatMul", "ReduceSumSquare", "ReduceSum", "Sqrt", "Add", "Sub",
           "Mul", "Div", "IsNaN", "Where", "graphcore.Detach"),
)  # fmt: skip
def spectral_norm(context: TranslationContext) -> str:
    """``weight / sigma``, sigma being the largest singular value (arXiv:1802.05957).

    The weight is reshaped to a matrix [dim, rest]; power iteration starts from u and v. The
    gradient is the one of Paddle's kernel, which is not that of the formula.
    """
    weight = context.input("weight")
    shape, dim = context.shape(weight), int(context.attr("dim", 0))
    order = [dim, *(axis for axis in range(len(shape)) if axis != dim)]
    transposed = context.transpose(weight, order)
    rows = shape[dim]
    matrix = context.reshape(transposed, [rows, product(shape) // max(rows, 1)])
    u = context.reshape(context.input("u"), [rows, 1])
    v = context.reshape(context.input("v"), [context.shape(matrix)[1], 1])
    across = context.swap_last_axes(matrix)
    eps = context.const_like(float(context.attr("eps", 1e-12)), weight)
    for _ in range(int(context.attr("power_iters", 1))):
        v = _unit(context, context.onnx.matmul([across, u]), eps)
        u = _unit(context, context.onnx.matmul([matrix, v]), eps)
    sigma = context.onnx.matmul([context.swap_last_axes(u), context.onnx.matmul([matrix, v])])
    sigma = context.reshape(sigma, [])
    normal = context.onnx.div([matrix, sigma])
    # Paddle's gradient of the weight is that of the result times this factor, elementwise.
    outer = context.onnx.matmul([u, context.swap_last_axes(v)])
    pull = context.onnx.mul([outer, context.onnx.reducesum([normal], None, 0)])
    one = context.const_like(1.0, weight)
    factor = context.onnx.div([context.onnx.sub([one, pull]), sigma])
    fixed, factor, detached = (
        context.graphcore.detach([tensor]) for tensor in (normal, factor, matrix)
    )
    moving = context.onnx.mul([context.onnx.sub([matrix, detached]), factor])
    # Zero times an infinite factor is none where sigma is 0.
    is_none = context.onnx.isnan([moving])
    result = context.onnx.where([is_none, fixed, context.onnx.add([fixed, moving])])
    result = context.reshape(result, [shape[at] for at in order])
    return context.transpose(result, inverse_order(order))


def _unit(context: TranslationContext, vector: str, eps: str) -> str:
    length = context.onnx.sqrt([context.onnx.reducesumsquare([vector], None, 1)])
    return context.onnx.div([vector, context.onnx.add([length, eps])])


@translator(
    "dropout",
    emits=("Dropout", "Mul", "Identity", "Cast"),
    limits="the probability must be constant; a fixed seed is not used",
)
def dropout(context: TranslationContext) -> list[str | None]:
    """Zeroes elements with probability p in training; the second result is the mask of the others.

    ``upscale_in_train`` divides by ``1 - p`` in training, ``downgrade_in_infer`` multiplies by ``1
    - p`` in inference.
    """
    x = context.input("x")
    p = context.number("p")
    upscale = context.attr("mode", "upscale_in_train") == "upscale_in_train"
    if context.attr("is_test", 0):
        if upscale or p == 0.0:
            return [context.onnx.identity([x]), None]
        return [context.onnx.mul([x, context.const_like(1.0 - p, x)]), None]
    if p in (0.0, 1.0):
        result = context.onnx.identity([x])
        if p == 1.0:
            result = context.onnx.mul([x, context.const_like(0.0, x)])
        kept = np.full(context.shape(x), p == 0.0)
        return [result, context.const(kept, "uint8") if context.is_used(1) else None]
    drawn = context.onnx.dropout([x], 1 + context.is_used(1), p)
    result = drawn[0]
    if not upscale:
        result = context.onnx.mul([result, context.const_like(1.0 - p, x)])
    return [result, context.cast(drawn[1], "uint8") if context.is_used(1) else None]
