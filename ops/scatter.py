"""Translators of writes at indices, by masks, to slices and to diagonals.

Indices known at run time become a ScatterReduce along one axis; several indexed axes are flattened
to one. Positions that shapes and attributes determine become a constant mask and a Where.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.ops.arrangement import places_of_diagonal
from paddle_ipu.ops.context import TranslationContext, inverse_order, product
from paddle_ipu.ops.moving_slices import Moving, bounds_at_run_time, onnx_bounds
from paddle_ipu.ops.registry import translator
from paddle_ipu.popart.shape_inference.shaping import slice_range


def scattered(
    context: TranslationContext,
    updates: str,
    index: str,
    reduction: str,
    axis: int,
    into: str | int,
) -> str:
    """`updates` written or reduced into a tensor at indices along an axis.

    Args:
        context: of the node.
        updates: slices, as many along `axis` as there are indices.
        index: a vector of indices.
        reduction: name of a ``ScatterReduction``; ``NoReduction`` overwrites.
        axis: the axis, not negative.
        into: the tensor; or for one of zeros, its length along `axis`.
    """
    kind = context.scatter_reduction(reduction)
    if 0 in context.shape(updates):
        return _nothing_scattered(context, updates, axis, into)
    if isinstance(into, int):
        return context.graphcore.groupedscatterreduce([updates, index], into, axis, kind)
    size = context.shape(into)[axis]
    return context.graphcore.groupedscatterreduce([updates, index, into], size, axis, kind)


def _nothing_scattered(
    context: TranslationContext, updates: str, axis: int, into: str | int
) -> str:
    if isinstance(into, str):
        return context.onnx.identity([into])
    shape = [into if at == axis else dim for at, dim in enumerate(context.shape(updates))]
    return context.const(np.zeros(shape), context.dtype(updates))


def _places(context: TranslationContext, index: str, size: int, stride: int = 1) -> str:
    """``index * stride``, negative indices counted from the end of an axis of that size.

    Expressed as a Gather from a table: Gather checks the range of indices, for each axis apart.
    """
    table = context.const(np.arange(size) * stride, "int32")
    return context.onnx.gather([table, index], 0)


def _counted_through(context: TranslationContext, parts: list[str], dims: list[int]) -> str:
    """Flat indices from one index for each of the axes of sizes `dims`."""
    total = ""
    for at, part in enumerate(parts):
        place = _places(context, part, dims[at], product(dims[at + 1 :]))
        total = context.onnx.add([total, place]) if total else place
    return total


@translator("scatter", emits=("Reshape", "graphcore.ScatterReduce", "Cast", "Where", "Identity"))
def scatter(context: TranslationContext) -> str:
    """Rows of ``x`` replaced by ``updates``; without ``overwrite`` by the sum of their updates."""
    x, index, updates = (context.input(name) for name in ("x", "index", "updates"))
    count = product(context.shape(index))
    index = context.reshape(index, [count])
    updates = context.reshape(updates, [count, *context.shape(x)[1:]])
    if context.attr("overwrite", 1):
        return scattered(context, updates, index, "NoReduction", 0, x)
    ones = context.const(np.ones(count), "int32")
    rows = scattered(context, ones, index, "Sum", 0, context.shape(x)[0])
    named = context.cast(rows, "bool")
    named = context.reshape(named, [context.shape(x)[0], *[1] * (context.rank(x) - 1)])
    rest = context.onnx.where([named, context.const_like(0.0, x), x])
    return scattered(context, updates, index, "Sum", 0, rest)


@translator(
    "scatter_nd_add",
    emits=("Split", "Gather", "Add", "Reshape", "graphcore.ScatterReduce", "Identity"),
)
def scatter_nd_add(context: TranslationContext) -> str:
    """``x[index[..., 0], index[..., 1], ...] += updates``; updates of equal indices are summed."""
    x, index, updates = (context.input(name) for name in ("x", "index", "updates"))
    shape, depth = context.shape(x), context.shape(index)[-1]
    count = product(context.shape(index)[:-1])
    index = context.reshape(index, [count, depth])
    if depth == 1:
        parts = [context.reshape(index, [count])]
    else:
        pieces = context.onnx.split([index], depth, 1, [1] * depth)
        parts = [context.reshape(piece, [count]) for piece in pieces]
    place = _counted_through(context, parts, shape[:depth])
    rest = shape[depth:]
    flat = context.reshape(x, [product(shape[:depth]), *rest])
    updates = context.reshape(updates, [count, *rest])
    return context.reshape(scattered(context, updates, place, "Sum", 0, flat), shape)


@translator("index_add", emits=("Gather", "graphcore.ScatterReduce", "Identity"))
def index_add(context: TranslationContext) -> str:
    """``add_value`` added to the slices of ``x`` at an index along ``axis``."""
    x, index = context.input("x"), context.input("index")
    if 0 in context.shape(index):
        # Paddle takes a number without axes too.
        return context.onnx.identity([x])
    axis = int(context.attr("axis", 0)) % context.rank(x)
    index = _places(context, index, context.shape(x)[axis])
    return scattered(context, context.input("add_value"), index, "Sum", axis, x)


@translator(
    "index_put",
    emits=("Gather", "Add", "Where", "Reshape", "Expand", "graphcore.ScatterReduce", "Identity"),
    limits="a mask computed at run time takes one value for all, not a list of as many as it has "
    "true elements",
)
def index_put(context: TranslationContext) -> str:
    """``x[indices] = value``; with ``accumulate`` ``+=``, values of equal indices are summed.

    A constant mask is converted to indices, one computed at run time to a Where.
    """
    x, value, indices = context.input("x"), context.input("value"), context.inputs("indices")
    if context.dtype(indices[0]) == "bool":
        if not context.is_constant("indices") or len(indices) != 1:
            return _put_by_mask(context, x, indices, value)
        indices = [context.const(at, "int32") for at in np.nonzero(context.static("indices"))]
    shape, depth = context.shape(x), len(indices)
    if depth > len(shape):
        raise context.refuse(f"{depth} indices of x {shape}: one for each axis at most.")
    wanted = list(np.broadcast_shapes(*(tuple(context.shape(index)) for index in indices)))
    parts = []
    for index in indices:
        if context.shape(index) != wanted:
            index = context.onnx.expand([index, context.shape_const(wanted)])
        parts.append(context.reshape(index, [product(wanted)]))
    place = _counted_through(context, parts, shape[:depth])
    rest = shape[depth:]
    if context.shape(value) != wanted + rest:
        value = context.onnx.expand([value, context.shape_const(wanted + rest)])
    updates = context.reshape(value, [product(wanted), *rest])
    flat = context.reshape(x, [product(shape[:depth]), *rest])
    kind = "Sum" if context.attr("accumulate", 0) else "NoReduction"
    return context.reshape(scattered(context, updates, place, kind, 0, flat), shape)


def _put_by_mask(context: TranslationContext, x: str, masks: list[str], value: str) -> str:
    """A Where, for one value that broadcasts over the mask."""
    mask, rank = masks[0], context.rank(x)
    covered, dims = context.rank(mask), context.shape(value)
    rest = rank - covered
    if len(masks) != 1 or (len(dims) > rest and set(dims[: len(dims) - rest]) != {1}):
        raise context.refuse(
            f"a mask with values of shape {dims} is not supported: how many of them it takes is "
            "only known at run time. Give one value for all, a mask that is constant, or use "
            "paddle.where."
        )
    if (masked := context.shape(mask)) != context.shape(x)[:covered]:
        raise context.refuse(
            f"the mask is {masked}, and x {context.shape(x)}: a mask has the size of each axis "
            "that it covers."
        )
    value = context.reshape(value, dims[len(dims) - rest :] if rest < len(dims) else dims)
    mask = context.reshape(mask, [*context.shape(mask), *[1] * rest])
    if context.attr("accumulate", 0):
        value = context.onnx.add([x, value])
    return context.onnx.where([mask, value, x])


@translator("put_along_axis", emits=("paddle_ipu.PutAlongAxis", "Slice", "Identity"))
def put_along_axis(context: TranslationContext) -> str:
    """``values`` written or reduced along an axis at ``indices``, element by element."""
    x, index, values = (context.input(name) for name in ("arr", "indices", "values"))
    wanted = context.shape(index)
    if 0 in wanted:
        return context.onnx.identity([x])
    if not context.rank(x):
        raise context.refuse("arr is a number without axes; reshape it to [1].")
    if context.shape(values) != wanted:
        bounds = ([0] * len(wanted), wanted, range(len(wanted)))
        operands = [context.shape_const(list(item)) for item in bounds]
        values = context.onnx.slice([values, *operands])
    kind = str(context.attr("reduce", "assign"))
    attributes = {
        "axis": int(context.attr("axis")) % context.rank(x),
        "reduce": {"multiply": "mul"}.get(kind, kind),
        "include_self": int(context.attr("include_self", 1)),
    }
    if kind == "mean" and context.dtype(x).startswith("int"):
        attributes["rounds_down"] = int(context.attr("rounds_down", 1))
    return context.extension("PutAlongAxis", [x, index, values], attributes)[0]


# Slices.


def _position(at: int, rank: int, size: int) -> list[int]:
    """The shape of a vector of `size` elements along axis `at`."""
    return [size if axis == at else 1 for axis in range(rank)]


def _set_slice(context: TranslationContext, x: str, value: str) -> str:
    """`x` with `value` written to a slice.

    Along each sliced axis a Gather moves each value to the index where it is written, then a Where
    selects by a mask.
    """
    shape, rank = context.shape(x), context.rank(x)
    cuts = _cuts(context, shape)
    counts = {axis: _count(places) for axis, places in cuts.items()}
    sliced = [counts.get(axis, dim) for axis, dim in enumerate(shape)]
    if 0 in sliced:
        return context.onnx.identity([x])
    dropped = {axis % rank for axis in context.ints("decrease_axes")}
    seen = _with_new_axes(sliced, dropped, context.ints("none_axes"))
    dims = context.shape(value)
    while len(dims) > len(seen) and dims[0] == 1:
        dims = dims[1:]
    ends = seen[len(seen) - len(dims) :]
    if len(dims) > len(seen) or any(n not in (1, m) for n, m in zip(dims, ends, strict=True)):
        raise context.refuse(
            f"a value of shape {context.shape(value)} does not broadcast to the slice, {seen}."
        )
    value = context.reshape(value, dims)
    if dims != seen:
        value = context.onnx.expand([value, context.shape_const(seen)])
    value = context.reshape(value, sliced)
    inside, moving = np.ones([1] * rank, bool), []
    for axis, places in cuts.items():
        if isinstance(places, Moving):
            hit, source = _moved(context, places, shape[axis])
            moving.append(context.reshape(hit, _position(axis, rank, shape[axis])))
        elif list(places) == list(range(shape[axis])):
            continue
        else:
            which = np.zeros(shape[axis], np.int32)
            which[list(places)] = np.arange(len(places))
            source = context.const(which)
            is_written = np.isin(np.arange(shape[axis]), list(places))
            inside = inside & is_written.reshape(_position(axis, rank, -1))
        if counts[axis] != 1:
            value = context.onnx.gather([value, source], axis)
    mask = context.const(inside)
    for hit in moving:
        mask = context.onnx.logical_and([mask, hit])
    return context.onnx.where([mask, value, x])


def _with_new_axes(sliced: list[int], dropped: set[int], new: Sequence[int]) -> list[int]:
    """The shape of a slice with some axes dropped, and new ones of size 1.

    Paddle's kernel counts the places of new axes in the slice, the dropped ones with it and the
    new ones without.
    """
    shape = []
    for axis, dim in enumerate(sliced):
        shape += [1] * sum(place == axis for place in new)
        if axis not in dropped:
            shape.append(dim)
    return shape + [1] * sum(place >= len(sliced) for place in new)


def _cuts(context: TranslationContext, shape: list[int]) -> dict[int, range | Moving]:
    """Axis -> the indices of its slice."""
    rank = max(len(shape), 1)
    axes = [axis % rank for axis in context.ints("axes")]
    steps = context.ints("steps")
    for name in ("steps", "starts", "ends"):
        if context.is_constant(name) and len(context.ints(name)) != len(axes):
            raise context.refuse(f"{name} {context.ints(name)} of axes {axes}: one for each.")
    if context.is_constant("starts") and context.is_constant("ends"):
        slices: Sequence[tuple[int, int] | Moving] = list(
            zip(context.ints("starts"), context.ints("ends"), strict=True)
        )
    else:
        dropped = {axis % rank for axis in context.ints("decrease_axes")}
        slices = bounds_at_run_time(context, axes, steps, dropped)
    return {
        axis: bounds
        if isinstance(bounds, Moving)
        else slice_range(shape[axis], *onnx_bounds(shape[axis], *bounds, step), step)
        for axis, step, bounds in zip(axes, steps, slices, strict=True)
    }


def _count(places: range | Moving) -> int:
    return places.count if isinstance(places, Moving) else len(places)


def _moved(context: TranslationContext, moving: Moving, size: int) -> tuple[str, str]:
    """For each index of an axis: whether a moving slice covers it, and by which of its elements."""
    places = _places(context, moving.places(context), size)
    if moving.from_zero:
        context.check_range(places, 1, "index", 0, size - 1)
    first = places
    if moving.count != 1:
        first = context.onnx.gather([places, context.const(np.zeros(1, np.int32))], 0)
    behind = context.onnx.sub([context.const(np.arange(size), "int32"), first])
    below, count = (context.const([number], "int32") for number in (-1, moving.count))
    bounds = [context.onnx.greater([behind, below]), context.onnx.less([behind, count])]
    hit = context.onnx.logical_and(bounds)
    return hit, context.onnx.where([hit, behind, context.const([0], "int32")])


_WRITTEN = (
    "Expand", "Reshape", "Gather", "Where", "Identity", "Add", "Sub", "Greater", "Less", "And",
)  # fmt: skip
_LENGTHS = "lengths must be constant; a start that is a tensor is not below zero and has step 1"


@translator("set_value", emits=_WRITTEN, limits=_LENGTHS)
def set_value(context: TranslationContext) -> str:
    """``x`` with constants written to a slice."""
    x = context.input("x")
    numbers = np.asarray(context.attr("values")).reshape(context.ints("shape"))
    return _set_slice(context, x, context.const(numbers, context.dtype(x)))


@translator("set_value_with_tensor", emits=_WRITTEN, limits=_LENGTHS)
def set_value_with_tensor(context: TranslationContext) -> str:
    """``x`` with a tensor written to a slice."""
    x = context.input("x")
    return _set_slice(context, x, context.cast(context.input("values"), context.dtype(x)))


# Whole tensors and diagonals.


@translator("fill", emits=("Where", "Reshape", "Cast"))
def fill(context: TranslationContext) -> str:
    """``x`` with every element replaced by ``value``; its gradient is zero."""
    x = context.input("x")
    value = context.cast(context.input("value"), context.dtype(x))
    none = context.const(np.zeros([1] * context.rank(x), bool))
    return context.onnx.where([none, x, context.reshape(value, [1] * context.rank(x))])


@translator("fill_diagonal", emits=("Where",))
def fill_diagonal(context: TranslationContext) -> str:
    """``x`` with ``value`` on its diagonal.

    With ``wrap`` the diagonal begins anew below the last row of a tall matrix. As in Paddle's
    kernel, without ``wrap`` only the first ``columns ** 2`` elements of a tensor of rank 3 are
    filled.
    """
    x, offset = context.input("x"), int(context.attr("offset", 0))
    shape = context.shape(x)
    if len(shape) < 2:
        raise context.refuse(f"x is {shape}; a diagonal needs two axes or more.")
    columns, total = shape[1], product(shape)
    step = sum(product(shape[axis + 1 :]) for axis in range(len(shape)))
    if not context.attr("wrap", 0):
        total = min(total, columns * columns)
    hit = np.zeros(product(shape), bool)
    for place in range(0, total, step):
        if 0 <= place % columns + offset < columns:
            hit[place + offset] = True
    value = context.const_like(float(context.attr("value", 0.0)), x)
    return context.onnx.where([context.const(hit.reshape(shape)), value, x])


@translator(
    "fill_diagonal_tensor", emits=("graphcore.Detach", "Transpose", "Reshape", "Gather", "Where")
)
def fill_diagonal_tensor(context: TranslationContext) -> str:
    """``x`` with ``y`` on the diagonal of the matrices that two axes span; y has no gradient."""
    x, y = context.input("x"), context.graphcore.detach([context.input("y")])
    rank = context.rank(x)
    dims = [int(context.attr(name)) % rank for name in ("dim1", "dim2")]
    order = [axis for axis in range(rank) if axis not in dims] + dims
    transposed = context.transpose(x, order)
    *lead, rows, columns = context.shape(transposed)
    offset = int(context.attr("offset", 0))
    places = places_of_diagonal(rows, columns, offset)
    source = np.zeros(rows * columns, np.int32)
    source[places] = np.arange(len(places))
    hit = np.zeros([1] * len(lead) + [rows, columns], bool)
    hit.reshape(-1)[places] = True
    y = context.reshape(y, [*lead, len(places)])
    picked = context.onnx.gather([y, context.const(source)], len(lead))
    picked = context.reshape(picked, [*lead, rows, columns])
    filled = context.onnx.where([context.const(hit), picked, transposed])
    return context.transpose(filled, inverse_order(order))
