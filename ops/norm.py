"""Normalisation, softmax and dropout."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator


def on_last_axis(context: TranslationContext, x: str, axis: int) -> tuple[str, list[int] | None]:
    """`x` with `axis` moved last, and the order that moves it back (None where it was last)."""
    rank = context.rank(x)
    axis %= max(rank, 1)
    if rank == 0 or axis == rank - 1:
        return x, None
    order = [*(a for a in range(rank) if a != axis), axis]
    back = [order.index(a) for a in range(rank)]
    return str(context.onnx.transpose([x], order)), back


def _last_axis_op(context: TranslationContext, builder_name: str) -> str:
    x = context.input("x")
    if context.rank(x) == 0:
        alone = getattr(context.onnx, builder_name)([context.reshape(x, [1])], 0)
        return context.reshape(str(alone), [])
    x, back = on_last_axis(context, x, int(context.attr("axis", -1)))
    result = str(getattr(context.onnx, builder_name)([x], context.rank(x) - 1))
    return result if back is None else str(context.onnx.transpose([result], back))


@translator("softmax", emits="Softmax Transpose Reshape")
def softmax(context: TranslationContext) -> str:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return _last_axis_op(context, "softmax")


@translator("log_softmax", emits="LogSoftmax Transpose Reshape")
def log_softmax(context: TranslationContext) -> str:
    """``x - log(sum(exp(x)))`` along an axis."""
    return _last_axis_op(context, "logsoftmax")


@translator(
    "layer_norm",
    emits="graphcore.GroupNormalization Reshape",
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
    return [context.reshape(str(result), shape), None, None]


@translator(
    "dropout",
    emits="Dropout Mul Identity",
    limits="the probability must be constant; the mask cannot be read; a fixed seed is not used",
)
def dropout(context: TranslationContext) -> list[str | None]:
    """Zeroes elements with probability p in training.

    ``upscale_in_train`` divides what is left by 1 - p; ``downgrade_in_infer`` multiplies by 1 - p
    outside training instead.
    """
    x = context.input("x")
    p = float(context.static("p").reshape(()))
    upscale = context.attr("mode", "upscale_in_train") == "upscale_in_train"
    if context.is_used(1):
        raise context.refuse("its mask cannot be read.")
    if context.attr("is_test", 0):
        if upscale or p == 0.0:
            return [str(context.onnx.identity([x])), None]
        return [str(context.onnx.mul([x, context.const_like(1.0 - p, x)])), None]
    if p == 0.0:
        return [str(context.onnx.identity([x])), None]
    if p >= 1.0:
        return [str(context.onnx.mul([x, context.const_like(0.0, x)])), None]
    result = str(context.onnx.dropout([x], 1, p)[0])
    if not upscale:
        result = str(context.onnx.mul([result, context.const_like(1.0 - p, x)]))
    return [result, None]
