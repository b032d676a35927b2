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
    return str(context.onnx.gather([x, index], axis))


@translator(
    "embedding",
    emits="Gather Equal Where Reshape",
    limits="an id out of range is not noticed and reads the nearest row",
)
def embedding(context: TranslationContext) -> str:
    """Rows of ``weight`` at the ids ``x``; zeros, without gradient, at ``padding_idx``."""
    ids = context.input("x")
    rows = str(context.onnx.gather([context.input("weight"), ids], 0))
    padding = int(context.attr("padding_idx", -1))
    if padding < 0:
        return rows
    is_padding = context.onnx.equal([ids, context.const(padding, "int32")])
    is_padding = context.reshape(str(is_padding), [*context.shape(ids), 1])
    return str(context.onnx.where([is_padding, context.const_like(0.0, rows), rows]))


@translator("one_hot", emits="OneHot", limits="the number of classes must be constant")
def one_hot(context: TranslationContext) -> str:
    """1 at the class, 0 elsewhere, along a new last axis."""
    ids = context.input("x")
    depth = context.shape_const([context.ints("num_classes")[0]])
    values = context.const(np.asarray([0, 1]), context.output_dtype())
    return str(context.onnx.onehot([ids, depth, values], -1))


@translator("index_select", emits="Gather")
def index_select(context: TranslationContext) -> str:
    """Slices along an axis, one for each element of a 1-D index."""
    x = context.input("x")
    axis = int(context.attr("axis", 0)) % context.rank(x)
    return str(context.onnx.gather([x, context.input("index")], axis))


@translator("gather_nd", emits="Gather Reshape paddle_ipu.GatherNd")
def gather_nd(context: TranslationContext) -> str:
    """``x[index[..., 0], index[..., 1], ...]``; one index a row is a plain, portable gather."""
    x, index = context.input("x"), context.input("index")
    shape = context.shape(index)
    if shape[-1] == 1:
        return str(context.onnx.gather([x, context.reshape(index, shape[:-1])], 0))
    return context.extension("GatherNd", [x, index])[0]


@translator("take_along_axis", emits="paddle_ipu.TakeAlongAxis")
def take_along_axis(context: TranslationContext) -> str:
    """Element by element, the one at the index along an axis."""
    x, index = context.input("arr"), context.input("indices")
    axis = int(context.attr("axis")) % context.rank(x)
    return context.extension("TakeAlongAxis", [x, index], {"axis": axis})[0]


@translator("index_sample", emits="paddle_ipu.TakeAlongAxis")
def index_sample(context: TranslationContext) -> str:
    """In each row, the elements at that row's indices."""
    x, index = context.input("x"), context.input("index")
    return context.extension("TakeAlongAxis", [x, index], {"axis": 1})[0]
