"""Translators of gathers, embeddings and one-hot encodings."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import Array, TranslationContext, product
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


@translator("gather", emits=("Gather", "Reshape"), limits="the axis must be constant")
def gather(context: TranslationContext) -> str:
    """Slices of ``x`` along an axis by a 1-D index, or one of shape [n, 1]."""
    x, index = context.input("x"), context.input("index")
    axis, rank = context.ints("axis")[0] if context.has("axis") else 0, context.rank(x)
    if not -rank <= axis < rank:
        raise context.refuse(f"axis {axis} of x {context.shape(x)}, which does not have it.")
    axis %= rank
    shape = context.shape(index)
    if len(shape) == 2:
        # Paddle takes [n, 0], too: no index.
        index = context.reshape(index, [product(shape)])
    return context.onnx.gather([x, index], axis)


@translator("embedding", emits=("Gather", "Equal", "Where", "Reshape"))
def embedding(context: TranslationContext) -> str:
    """Rows of ``weight`` by the ids ``x``; zeros without gradient at ``padding_idx``.

    A run raises for an id that is not a row, as Paddle does.
    """
    ids = context.input("x")
    weight = context.input("weight")
    rows = context.onnx.gather([weight, ids], 0)
    context.check_range(rows, 1, "index", 0, context.shape(weight)[0] - 1)
    padding = int(context.attr("padding_idx", -1))
    if padding < 0:
        return rows
    is_padding = context.onnx.equal([ids, context.const_like(padding, ids)])
    is_padding = context.reshape(is_padding, [*context.shape(ids), 1])
    return context.onnx.where([is_padding, context.const_like(0.0, rows), rows])


@translator("one_hot", emits=("OneHot", "Reshape"), limits="the number of classes must be constant")
def one_hot(context: TranslationContext) -> str:
    """1 at the class, 0 elsewhere, along a new last axis of ``num_classes``."""
    ids, classes = context.input("x"), context.ints("num_classes")[0]
    depth = context.shape_const([classes])
    values = context.const(np.asarray([0, 1]), context.output_dtype())
    # PopART's OneHot needs at least one axis.
    row = ids if context.rank(ids) else context.reshape(ids, [1])
    hot = context.onnx.onehot([row, depth, values], -1)
    context.check_range(hot, 0, "class", 0, classes - 1)
    return hot if context.rank(ids) else context.reshape(hot, [classes])


@translator("index_select", emits=("Gather", "Reshape"))
def index_select(context: TranslationContext) -> str:
    """Slices of ``x`` along an axis by an index [N], or [N, 1]."""
    x, index = context.input("x"), context.input("index")
    axis = int(context.attr("axis", 0)) % context.rank(x)
    flat = index if context.rank(index) == 1 else context.reshape(index, [-1])
    return context.onnx.gather([x, flat], axis)


@translator("gather_nd", emits=("Gather", "Reshape", "paddle_ipu.GatherNd"))
def gather_nd(context: TranslationContext) -> str:
    """``x[index[..., 0], index[..., 1], ...]``; with one index it is a plain, portable Gather."""
    x, index = context.input("x"), context.input("index")
    shape = context.shape(index)
    if 0 in context.shape(x)[: shape[-1]] and 0 not in shape:
        raise context.refuse(f"x {context.shape(x)} has no element that index {shape} could mean.")
    if shape[-1] == 1:
        return context.onnx.gather([x, context.reshape(index, shape[:-1])], 0)
    return context.extension("GatherNd", [x, index])[0]


@translator("take_along_axis", emits=("paddle_ipu.TakeAlongAxis",))
def take_along_axis(context: TranslationContext) -> str:
    """``arr`` read along an axis at ``indices``, element by element, as in NumPy."""
    x, index = context.input("arr"), context.input("indices")
    axis = int(context.attr("axis")) % context.rank(x)
    if 0 in context.shape(index):
        return context.const(np.zeros(context.shape(index)), context.dtype(x))
    return context.extension("TakeAlongAxis", [x, index], {"axis": axis})[0]


@translator("index_sample", emits=("paddle_ipu.TakeAlongAxis",))
def index_sample(context: TranslationContext) -> str:
    """``x[i, index[i, j]]`` for matrices."""
    x, index = context.input("x"), context.input("index")
    result = context.extension("TakeAlongAxis", [x, index], {"axis": 1})[0]
    context.check_range(result, 1, "index", 0, context.shape(x)[1] - 1)
    return result


_FIXED = "how many elements it gives depends on the values of a tensor computed at run time; "


def _refuse_computed(context: TranslationContext, name: str, instead: str) -> None:
    """Raises if operand `name`, which decides the result's shape, is computed at run time."""
    if not context.is_constant(name):
        raise context.refuse(
            f"{_FIXED}an IPU program has static shapes. {instead}, or compute the operand from "
            "constants."
        )


@translator("masked_select", emits=("Reshape", "Gather"), limits="the mask must be constant")
def masked_select(context: TranslationContext) -> str:
    """The elements of ``x`` where the mask is true, as a vector."""
    _refuse_computed(context, "mask", "Use paddle.where, or multiply by the mask")
    x = context.input("x")
    mask = context.static("mask")
    shape = np.broadcast_shapes(mask.shape, tuple(context.shape(x)))
    places = np.arange(product(context.shape(x))).reshape(context.shape(x))
    chosen = np.broadcast_to(places, shape)[np.broadcast_to(mask, shape)]
    flat = context.reshape(x, [places.size])
    return context.onnx.gather([flat, context.const(chosen, "int32")], 0)


@translator("nonzero", emits=(), limits="the condition must be constant")
def nonzero(context: TranslationContext) -> Array:
    """The indices [n, rank] of the elements that are not zero."""
    _refuse_computed(context, "condition", "Use paddle.where with three arguments")
    return np.argwhere(context.static("condition")).astype(np.int64)


@translator("unique", emits=(), limits="the elements must be constant")
def unique(context: TranslationContext) -> list[str | None]:
    """The sorted distinct elements, or slices along ``axis``.

    Results: they, the first index of each, the inverse indices and the counts.
    """
    _refuse_computed(context, "x", "Use paddle.sort")
    x = context.static("x")
    axis = context.ints("axis")
    results = np.unique(x, True, True, True, axis=axis[0] if axis else None)
    parts = [results[0], results[1], np.asarray(results[2]).reshape(-1), results[3]]
    _counted(context)
    return [context.const(part) for part in parts]


@translator("unique_consecutive", emits=(), limits="the elements must be constant")
def unique_consecutive(context: TranslationContext) -> list[str | None]:
    """The first element, or slice, of each run of equal ones; inverse indices and counts."""
    _refuse_computed(context, "x", "Use paddle.sort")
    x = context.static("x")
    axis = context.ints("axis")
    lines = np.moveaxis(x, axis[0], 0) if axis else x.reshape(-1)
    differs = (lines[1:] != lines[:-1]).reshape(len(lines) - 1, -1).any(axis=1)
    first = np.concatenate([[True], differs])
    kept = np.moveaxis(lines[first], 0, axis[0]) if axis else lines[first]
    counts = np.diff([*np.flatnonzero(first), len(lines)])
    _counted(context)
    return [context.const(part) for part in (kept, np.cumsum(first) - 1, counts)]


def _counted(context: TranslationContext) -> None:
    """Declares the dtype of the results after the first, which a PIR program may not have."""
    for at, result in enumerate(context.node.outputs):
        if at and result.name:
            written_as(context, at, str(context.attr("dtype", "int64")))


@translator("gather_tree", emits=("Slice", "Reshape", "Add", "Gather", "Concat"))
def gather_tree(context: TranslationContext) -> str:
    """Whole beams [time, batch, beam] from the tokens and parents of each step of a beam search."""
    ids, parents = context.input("ids"), context.input("parents")
    if context.rank(ids) != 3:
        raise context.refuse(f"ids are {context.shape(ids)}, and have to be [time, batch, beam].")
    steps, batch, beams = context.shape(ids)
    first = context.const(np.arange(batch).repeat(beams) * beams, context.dtype(parents))
    place = context.const(np.arange(batch * beams), "int32")
    tokens = []
    for step in reversed(range(steps)):
        row, above = (
            context.reshape(context.slice(tensor, 0, step, step + 1), [batch * beams])
            for tensor in (ids, parents)
        )
        tokens.append(context.reshape(context.onnx.gather([row, place], 0), [1, batch, beams]))
        parent = context.onnx.gather([above, place], 0)
        place = context.onnx.add([parent, first])
        context.check_range(place, 0, "parent", 0, beams - 1)
    return context.onnx.concat(tokens[::-1], 0)


@translator("shard_index", emits=("Greater", "Less", "And", "Sub", "Where"))
def shard_index(context: TranslationContext) -> str:
    """The index within shard ``shard_id``, ``ignore_value`` if it belongs to another shard.

    A shard has ``ceil(index_num / nshards)`` indices.
    """
    x = context.input("input")
    count = int(context.attr("index_num"))
    size = -(-count // int(context.attr("nshards")))
    low = int(context.attr("shard_id")) * size
    above = context.onnx.greater([x, context.const_like(low - 1, x)])
    context.check_range(above, 0, "index", 0, count - 1)
    below = context.onnx.less([x, context.const_like(low + size, x)])
    inside = context.onnx.logical_and([above, below])
    moved = context.onnx.sub([x, context.const_like(low, x)])
    other = context.const_like(int(context.attr("ignore_value", -1)), x)
    return context.onnx.where([inside, moved, other])
