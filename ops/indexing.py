"""Gathering rows, embeddings and one-hot encodings."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


@translator("gather", emits="Gather Reshape", limits="the axis must be constant")
def gather(context: TranslationContext) -> str:
    """Slices along an axis, one for each element of a 1-D index."""
    x, index = context.input("x"), context.input("index")
    axis = (context.ints("axis")[0] if context.has("axis") else 0) % context.rank(x)
    shape = context.shape(index)
    if len(shape) == 2 and shape[1] == 1:
        index = context.reshape(index, shape[:1])
    return str(context.onnx.gather([x, context.cast(index, "int32")], axis))


@translator("embedding", emits="Gather Equal Where Unsqueeze")
def embedding(context: TranslationContext) -> str:
    """Rows of ``weight`` at the ids ``x``; zeros, without gradient, at ``padding_idx``."""
    ids = context.cast(context.input("x"), "int32")
    rows = str(context.onnx.gather([context.input("weight"), ids], 0))
    padding = int(context.attr("padding_idx", -1))
    if padding < 0:
        return rows
    is_padding = context.onnx.equal([ids, context.const(padding, "int32")])
    is_padding = context.reshape(str(is_padding), [*context.shape(ids), 1])
    return str(context.onnx.where([is_padding, context.const_like(0.0, rows), rows]))


@translator("one_hot", emits="OneHot Cast", limits="the number of classes must be constant")
def one_hot(context: TranslationContext) -> str:
    """1 at the class, 0 elsewhere, along a new last axis."""
    ids = context.cast(context.input("x"), "int32")
    depth = context.shape_const([context.ints("num_classes")[0]])
    values = context.const(np.asarray([0, 1]), context.output_dtype())
    return str(context.onnx.onehot([ids, depth, values], -1))
