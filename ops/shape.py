"""Translators of shapes, layouts, concatenation, slicing, padding and casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import Array, TranslationContext, product
from paddle_ipu.ops.moving_slices import cut_at_run_time, onnx_bounds
from paddle_ipu.ops.registry import translator


@translator("cast", emits=("Cast", "Identity"))
def cast(context: TranslationContext) -> str:
    """The tensor in another dtype."""
    x = context.input("x")
    result = context.cast(x, context.output_dtype())
    return context.onnx.identity([x]) if result == x else result


@translator("assign", "assign_out_", emits=("Identity",))
def assign(context: TranslationContext) -> str:
    """The tensor itself; for ``assign_out_`` it is the new value of ``output``."""
    return context.onnx.identity([context.input("x")])


@translator("share_data", emits=("graphcore.Detach",))
def share_data(context: TranslationContext) -> str:
    """The tensor itself without its gradient, as ``x.detach()``."""
    return context.graphcore.detach([context.input("x")])


@translator("reshape", emits=("Reshape",))
def reshape(context: TranslationContext) -> str:
    """The tensor in another shape; 0 copies a dimension, -1 is inferred."""
    x = context.input("x")
    old, new = context.shape(x), context.ints("shape")
    if 0 in old and -1 not in new:
        # What Paddle takes 0 for in a tensor without elements depends on its version.
        new = dialect.dims_of(context.node.outputs[0])
        return context.reshaped(x, new)
    dims = [old[index] if dim == 0 else dim for index, dim in enumerate(new)]
    if -1 in dims:
        known = product([dim for dim in dims if dim != -1])
        dims[dims.index(-1)] = product(old) // max(known, 1)
    if product(dims) != product(old):
        raise context.refuse(
            f"cannot reshape {old} to {new}: {product(old)} elements, {product(dims)} asked for."
        )
    return context.reshaped(x, dims)


@translator("flatten", emits=("Reshape",))
def flatten(context: TranslationContext) -> str:
    """Axes ``start_axis`` to ``stop_axis`` merged into one."""
    x = context.input("x")
    shape = context.shape(x)
    if not shape:
        return context.onnx.reshape([x, context.shape_const([1])])
    given = [int(context.attr("start_axis", 1)), int(context.attr("stop_axis", -1))]
    rank = len(shape)
    if not all(-rank <= axis < rank for axis in given):
        raise context.refuse(
            f"start_axis {given[0]} and stop_axis {given[1]} have to be axes of x, which is "
            f"{shape}: Paddle reads the sizes of others from memory that holds none."
        )
    start, stop = (axis % rank for axis in given)
    dims = [*shape[:start], product(shape[start : stop + 1]), *shape[stop + 1 :]]
    return context.reshaped(x, dims)


@translator("squeeze", emits=("Reshape",))
def squeeze(context: TranslationContext) -> str:
    """The tensor without the given axes of size 1, or without all of them."""
    x = context.input("x")
    shape = context.shape(x)
    axes = {axis % len(shape) for axis in context.ints("axis")} if shape else set()
    drop = axes or set(range(len(shape)))
    dims = [dim for axis, dim in enumerate(shape) if not (axis in drop and dim == 1)]
    return context.reshaped(x, dims)


@translator("unsqueeze", emits=("Reshape",))
def unsqueeze(context: TranslationContext) -> str:
    """The tensor with axes of size 1 inserted, one after another."""
    x = context.input("x")
    dims = context.shape(x)
    for axis in context.ints("axis"):
        dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 1)
    return context.reshaped(x, dims)


@translator("transpose", emits=("Transpose",))
def transpose(context: TranslationContext) -> str:
    """The tensor with its axes permuted."""
    x = context.input("x")
    rank, perm = context.rank(x), context.ints("perm")
    if len(perm) != rank:
        raise context.refuse(f"perm {perm} has to name each of the {rank} axes once.")
    return context.onnx.transpose([x], [axis % rank for axis in perm])


@translator("concat", emits=("Concat",))
def concat(context: TranslationContext) -> str:
    """Tensors concatenated along an axis."""
    tensors = context.inputs("x")
    axis = context.ints("axis")[0] % context.rank(tensors[0])
    return context.onnx.concat(tensors, axis)


@translator("stack", emits=("Reshape", "Concat"))
def stack(context: TranslationContext) -> str:
    """Tensors of the same shape concatenated along a new axis."""
    tensors = context.inputs("x")
    shape = context.shape(tensors[0])
    axis = int(context.attr("axis", 0)) % (len(shape) + 1)
    dims = [*shape[:axis], 1, *shape[axis:]]
    return context.onnx.concat([context.reshape(t, dims) for t in tensors], axis)


@translator("split", emits=("Split",))
def split(context: TranslationContext) -> list[str]:
    """Parts of the given lengths along an axis; one may be -1, the rest."""
    x = context.input("x")
    axis = context.ints("axis")[0] % context.rank(x)
    sections = context.ints("sections")
    if -1 in sections:
        rest = context.shape(x)[axis] - sum(size for size in sections if size != -1)
        sections[sections.index(-1)] = rest
    return context.onnx.split([x], len(sections), axis, sections)


@translator("split_with_num", emits=("Split",))
def split_with_num(context: TranslationContext) -> list[str]:
    """``num`` equal parts along an axis."""
    x = context.input("x")
    axis = context.ints("axis")[0] % context.rank(x)
    count = int(context.attr("num"))
    if count != len(context.node.outputs):
        raise ValueError(f"num is {count} of {len(context.node.outputs)} results")
    size = context.shape(x)[axis] // count
    return context.onnx.split([x], count, axis, [size] * count)


@translator("unstack", "unbind", emits=("Split", "Reshape"))
def unstack(context: TranslationContext) -> list[str]:
    """The slices along an axis, which is removed."""
    x = context.input("x" if context.has("x") else "input")
    shape = context.shape(x)
    axis = int(context.attr("axis", 0)) % len(shape)
    parts = context.onnx.split([x], shape[axis], axis, [1] * shape[axis])
    dims = shape[:axis] + shape[axis + 1 :]
    return [context.reshape(part, dims) for part in parts]


_LENGTHS = "lengths must be constant; a start that is a tensor is not below zero, with a step of 1"


@translator("slice", emits=("Slice", "Gather", "Reshape", "Add"), limits=_LENGTHS)
def slice_(context: TranslationContext) -> str:
    """A slice along some axes; ``decrease_axis`` removes axes of size 1."""
    axes = context.ints("axes")
    return _cut(context, axes, [1] * len(axes))


@translator("strided_slice", emits=("Slice", "Gather", "Reshape", "Add"), limits=_LENGTHS)
def strided_slice(context: TranslationContext) -> str:
    """A slice with a step along some axes."""
    return _cut(context, context.ints("axes"), context.ints("strides"))


def _cut(context: TranslationContext, axes: list[int], steps: list[int]) -> str:
    """The slice; a Slice if its bounds are constant, Gathers otherwise."""
    if not (context.is_constant("starts") and context.is_constant("ends")):
        return _dropped(context, cut_at_run_time(context, axes, steps))
    x = context.input("x" if context.has("x") else "input")
    shape = context.shape(x)
    if not all(-len(shape) <= axis < len(shape) for axis in axes):
        raise context.refuse(f"axes {axes} of a tensor with {len(shape)}.")
    bounds = [
        onnx_bounds(shape[axis], start, end, step)
        for axis, start, end, step in zip(
            axes, context.ints("starts"), context.ints("ends"), steps, strict=True
        )
    ]
    starts, ends = [start for start, _ in bounds], [end for _, end in bounds]
    operands = [starts, ends, axes, steps]
    return _dropped(
        context, context.onnx.slice([x, *[context.shape_const(item) for item in operands]])
    )


def _dropped(context: TranslationContext, cut: str) -> str:
    drop = {axis % context.rank(cut) for axis in context.ints("decrease_axis")}
    dims = [dim for axis, dim in enumerate(context.shape(cut)) if axis not in drop]
    return context.reshape(cut, dims)


@translator("expand", emits=("Expand",))
def expand(context: TranslationContext) -> str:
    """The tensor broadcast to a shape; -1 copies a dimension."""
    x = context.input("x")
    old, new = context.shape(x), context.ints("shape")
    lead = len(new) - len(old)
    dims = [old[index - lead] if dim == -1 else dim for index, dim in enumerate(new)]
    return context.onnx.expand([x, context.shape_const(dims)])


@translator("tile", emits=("Tile", "Reshape"))
def tile(context: TranslationContext) -> str:
    """The tensor repeated along each axis; shape and ``repeat_times`` are aligned to the right."""
    x = context.input("x")
    shape, repeats = context.shape(x), context.ints("repeat_times")
    rank = max(len(shape), len(repeats))
    x = context.reshape(x, [1] * (rank - len(shape)) + shape)
    repeats = [1] * (rank - len(repeats)) + repeats
    return context.onnx.tile([x, context.shape_const(repeats)])


@translator("expand_as", emits=("Expand",))
def expand_as(context: TranslationContext) -> str:
    """The tensor broadcast to the shape of another."""
    x = context.input("x")
    dims = context.shape(context.input("y")) if context.has("y") else context.attr("target_shape")
    return context.onnx.expand([x, context.shape_const(dims)])


@translator("meshgrid", emits=("Reshape", "Expand"))
def meshgrid(context: TranslationContext) -> list[str]:
    """Each vector along an axis of its own, broadcast along the others."""
    vectors = context.inputs("inputs")
    dims = [product(context.shape(vector)) for vector in vectors]
    grids = []
    for axis, vector in enumerate(vectors):
        line_shape = [dim if at == axis else 1 for at, dim in enumerate(dims)]
        line = context.reshape(vector, line_shape)
        grids.append(context.onnx.expand([line, context.shape_const(dims)]))
    return grids


@translator("flip", emits=("graphcore.Reverse",))
def flip(context: TranslationContext) -> str:
    """The order of elements reversed along axes."""
    x = context.input("x")
    axes = [axis % context.rank(x) for axis in context.ints("axis")]
    return context.graphcore.reverse([x], axes)


@translator(
    "roll", emits=("Slice", "Concat", "Reshape", "Identity"), limits="the shifts must be constant"
)
def roll(context: TranslationContext) -> str:
    """Elements shifted along axes, or of the flattened tensor; those beyond the end come first."""
    x = context.input("x")
    shape, axes = context.shape(x), context.ints("axis")
    moved = x if axes else context.reshape(x, [-1])
    for shift, axis in zip(context.ints("shifts"), axes or [0], strict=True):
        axis %= context.rank(moved)
        size = context.shape(moved)[axis]
        at = -shift % max(size, 1)
        if at:
            parts = [context.slice(moved, axis, at, size), context.slice(moved, axis, 0, at)]
            moved = context.onnx.concat(parts, axis)
    moved = context.reshape(moved, shape)
    return context.onnx.identity([x]) if moved == x else moved


@translator("repeat_interleave", emits=("Reshape", "Expand"))
def repeat_interleave(context: TranslationContext) -> str:
    """Each slice along an axis repeated ``repeats`` times."""
    x, count = context.input("x"), int(context.attr("repeats"))
    shape = context.shape(x)
    axis = int(context.attr("axis", 0)) % len(shape)
    apart = context.reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    dims = [*shape[: axis + 1], count, *shape[axis + 1 :]]
    repeated = context.onnx.expand([apart, context.shape_const(dims)])
    return context.reshape(repeated, [*shape[:axis], shape[axis] * count, *shape[axis + 1 :]])


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@translator("pad3d", emits=("Pad", "Gather"), limits="the paddings must be constant")
def pad3d(context: TranslationContext) -> str:
    """Spatial axes of [N, C, D, H, W] or [N, D, H, W, C] padded; ``paddings`` begins with W.

    ``circular`` continues at the other end of an axis, and is a Gather.
    """
    mode = str(context.attr("mode", "constant"))
    widths = context.ints("paddings")
    spatial = [(widths[at], widths[at + 1]) for at in (4, 2, 0)]
    last = context.attr("data_format", "NCDHW") == "NDHWC"
    pairs = [(0, 0), *spatial, (0, 0)] if last else [(0, 0), (0, 0), *spatial]
    if mode != "circular":
        return _padded(context, pairs, _MODES[mode])
    x = context.input("x")
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            size = context.shape(x)[axis]
            around = np.arange(-before, size + after) % size
            x = context.onnx.gather([x, context.const(around, "int32")], axis)
    return x


@translator("pad", emits=("Pad",), limits="the paddings must be constant")
def pad(context: TranslationContext) -> str:
    """Every axis padded by a constant; ``paddings`` has (before, after) for each."""
    widths = context.ints("paddings")
    return _padded(context, list(zip(widths[::2], widths[1::2], strict=True)), "constant")


def _padded(context: TranslationContext, pairs: list[tuple[int, int]], mode: str) -> str:
    x = context.input("x")
    widths = context.shape_const([before for before, _ in pairs] + [after for _, after in pairs])
    number = context.const_like(context.number("pad_value", 0.0), x)
    return context.onnx.pad([x, widths, number], mode)


@translator("tril", emits=("Where",))
def tril(context: TranslationContext) -> str:
    """The lower triangle of matrices, zeros above the diagonal."""
    return _triangle(context, np.tril)


@translator("triu", emits=("Where",))
def triu(context: TranslationContext) -> str:
    """The upper triangle of matrices, zeros below the diagonal."""
    return _triangle(context, np.triu)


def _triangle(context: TranslationContext, part: Callable[..., Array]) -> str:
    x = context.input("x")
    kept = part(np.ones(context.shape(x)[-2:], dtype=bool), int(context.attr("diagonal", 0)))
    return context.onnx.where([context.const(kept), x, context.const_like(0.0, x)])


@translator("pixel_shuffle", emits=("Reshape", "Transpose"))
def pixel_shuffle(context: TranslationContext) -> str:
    """[N, C * r * r, H, W] to [N, C, H * r, W * r] (arXiv:1609.05158); likewise for NHWC."""
    x, factor = context.input("x"), int(context.attr("upscale_factor"))
    if context.attr("data_format", "NCHW") == "NHWC":
        count, height, width, channels = context.shape(x)
        channels //= factor * factor
        apart = context.reshape(x, [count, height, width, channels, factor, factor])
        transposed = context.onnx.transpose([apart], [0, 1, 4, 2, 5, 3])
        return context.reshape(transposed, [count, height * factor, width * factor, channels])
    count, channels, height, width = context.shape(x)
    channels //= factor * factor
    apart = context.reshape(x, [count, channels, factor, factor, height, width])
    transposed = context.onnx.transpose([apart], [0, 1, 4, 2, 5, 3])
    return context.reshape(transposed, [count, channels, height * factor, width * factor])
