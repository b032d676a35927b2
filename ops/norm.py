"""Normalisation, softmax and dropout."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.image_layout import (
    channels_back,
    channels_first,
    is_channels_last,
    per_channel,
)
from paddle_ipu.ops.registry import translator


def on_last_axis(context: TranslationContext, x: str, axis: int) -> tuple[str, list[int] | None]:
    """`x` with `axis` moved last, and the order that moves it back (None where it was last)."""
    rank = context.rank(x)
    axis %= max(rank, 1)
    if rank == 0 or axis == rank - 1:
        return x, None
    order = [*(a for a in range(rank) if a != axis), axis]
    back = [order.index(a) for a in range(rank)]
    return context.onnx.transpose([x], order), back


def _last_axis_op(context: TranslationContext, builder_name: str) -> str:
    x = context.input("x")
    if context.rank(x) == 0:
        alone = getattr(context.onnx, builder_name)([context.reshape(x, [1])], 0)
        return context.reshape(alone, [])
    x, back = on_last_axis(context, x, int(context.attr("axis", -1)))
    result = str(getattr(context.onnx, builder_name)([x], context.rank(x) - 1))
    return result if back is None else context.onnx.transpose([result], back)


@translator("softmax", emits=("Softmax", "Transpose", "Reshape"))
def softmax(context: TranslationContext) -> str:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return _last_axis_op(context, "softmax")


@translator("log_softmax", emits=("LogSoftmax", "Transpose", "Reshape"))
def log_softmax(context: TranslationContext) -> str:
    """``x - log(sum(exp(x)))`` along an axis."""
    return _last_axis_op(context, "logsoftmax")


@translator(
    "layer_norm",
    emits=("graphcore.GroupNormalization", "Reshape"),
    limits="the mean and variance results cannot be read",
)
def layer_norm(context: TranslationContext) -> list[str | None]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over the trailing dimensions."""
    x = context.input("x")
    shape = context.shape(x)
    axis = int(context.attr("begin_norm_axis", 1))
    rows, columns = product(shape[:axis]), product(shape[axis:])
    dtype = context.dtype(x)
    scale, bias = context.optional("scale"), context.optional("bias")
    scale = scale or context.const(np.ones(columns), dtype)
    bias = bias or context.const(np.zeros(columns), dtype)
    if context.is_used(1) or context.is_used(2):
        raise context.refuse("its mean and variance results cannot be read; compute them apart.")
    flat = context.reshape(x, [rows, columns])
    scale, bias = context.reshape(scale, [columns]), context.reshape(bias, [columns])
    result = context.graphcore.groupnormalization(
        [flat, scale, bias], 1, float(context.attr("epsilon", 1e-5))
    )[0]
    return [context.reshape(result, shape), None, None]


def _grouped(context: TranslationContext, groups: int, last: bool) -> list[str | None]:
    x = channels_first(context, context.input("x"), last)
    channels = context.shape(x)[1]
    if context.is_used(1) or context.is_used(2):
        raise context.refuse("its mean and variance results cannot be read; compute them apart.")
    scale = context.optional("scale") or context.const(np.ones(channels), context.dtype(x))
    bias = context.optional("bias") or context.const(np.zeros(channels), context.dtype(x))
    epsilon = float(context.attr("epsilon", 1e-5))
    result = context.graphcore.groupnormalization([x, scale, bias], groups, epsilon)[0]
    return [channels_back(context, result, last), None, None]


_UNREAD = "the mean and variance results cannot be read"


@translator("group_norm", emits=("graphcore.GroupNormalization", "Transpose"), limits=_UNREAD)
def group_norm(context: TranslationContext) -> list[str | None]:
    """Normalises each group of channels of a sample."""
    return _grouped(context, int(context.attr("groups", 1)), is_channels_last(context))


@translator("instance_norm", emits=("graphcore.GroupNormalization",), limits=_UNREAD)
def instance_norm(context: TranslationContext) -> list[str | None]:
    """Normalises each channel of a sample of [N, C, spatial axes]."""
    return _grouped(context, context.shape(context.input("x"))[1], last=False)


@translator("affine_channel", emits=("Mul", "Add", "Reshape"))
def affine_channel(context: TranslationContext) -> str:
    """``x * scale + bias`` by channel."""
    x, last = context.input("x"), is_channels_last(context, "data_layout")
    rank = context.rank(x)
    scale, bias = (
        per_channel(context, context.input(name), rank, last) for name in ("scale", "bias")
    )
    return context.onnx.add([context.onnx.mul([x, scale]), bias])


@translator(
    "spectral_norm",
    emits=("Reshape", "Transpose", "MatMul", "ReduceSumSquare", "ReduceSum", "Sqrt", "Add", "Sub",
           "Mul", "Div", "graphcore.Detach"),
)  # fmt: skip
def spectral_norm(context: TranslationContext) -> str:
    """``weight / sigma``, sigma its largest singular value by power iteration from u and v.

    The weight is a matrix [dim, the rest] (Miyato et al., arXiv:1802.05957). The gradient is the
    one that Paddle's kernel computes, which is not that of the formula.
    """
    weight = context.input("weight")
    shape, dim = context.shape(weight), int(context.attr("dim", 0))
    order = [dim, *(axis for axis in range(len(shape)) if axis != dim)]
    turned = weight if dim == 0 else context.onnx.transpose([weight], order)
    rows = shape[dim]
    matrix = context.reshape(turned, [rows, product(shape) // max(rows, 1)])
    u = context.reshape(context.input("u"), [rows, 1])
    v = context.reshape(context.input("v"), [context.shape(matrix)[1], 1])
    across = context.onnx.transpose([matrix], [1, 0])
    eps = context.const_like(float(context.attr("eps", 1e-12)), weight)
    for _ in range(int(context.attr("power_iters", 1))):
        v = _unit(context, context.onnx.matmul([across, u]), eps)
        u = _unit(context, context.onnx.matmul([matrix, v]), eps)
    left = context.onnx.transpose([u], [1, 0])
    sigma = context.onnx.matmul([context.onnx.matmul([left, matrix]), v])
    sigma = context.reshape(sigma, [])
    normal = context.onnx.div([matrix, sigma])
    # Paddle's gradient by weight is that of the result times this factor, element by element.
    outer = context.onnx.matmul([u, context.onnx.transpose([v], [1, 0])])
    pull = context.onnx.mul([outer, context.onnx.reducesum([normal], None, 0)])
    one = context.const_like(1.0, weight)
    factor = context.onnx.div([context.onnx.sub([one, pull]), sigma])
    fixed, factor, still = (
        context.graphcore.detach([tensor]) for tensor in (normal, factor, matrix)
    )
    moving = context.onnx.mul([context.onnx.sub([matrix, still]), factor])
    result = context.reshape(context.onnx.add([fixed, moving]), [shape[at] for at in order])
    if dim == 0:
        return result
    return context.onnx.transpose([result], [order.index(at) for at in range(len(shape))])


def _unit(context: TranslationContext, vector: str, eps: str) -> str:
    length = context.onnx.sqrt([context.onnx.reducesumsquare([vector], None, 1)])
    return context.onnx.div([vector, context.onnx.add([length, eps])])


@translator(
    "dropout",
    emits=("Dropout", "Mul", "Identity", "Cast"),
    limits="the probability must be constant; a fixed seed is not used",
)
def dropout(context: TranslationContext) -> list[str | None]:
    """Zeroes elements with probability p in training; the second result is 1 where they are kept.

    ``upscale_in_train`` divides what is left by 1 - p; ``downgrade_in_infer`` multiplies by 1 - p
    outside training instead.
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
