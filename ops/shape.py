"""Shapes, layouts, joining, cutting, constants and casts."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator


@translator("cast", emits="Cast Identity")
def cast(context: TranslationContext) -> str:
    """The tensor in another dtype."""
    x = context.input("x")
    result = context.cast(x, context.output_dtype())
    return str(context.onnx.identity([x])) if result == x else result


@translator("assign", "share_data", emits="Identity")
def assign(context: TranslationContext) -> str:
    """The tensor itself."""
    return str(context.onnx.identity([context.input("x")]))


@translator("reshape", emits="Reshape")
def reshape(context: TranslationContext) -> str:
    """Another shape; 0 keeps a dimension, -1 is worked out."""
    x = context.input("x")
    old, new = context.shape(x), context.ints("shape")
    dims = [old[index] if dim == 0 else dim for index, dim in enumerate(new)]
    if -1 in dims:
        known = product([dim for dim in dims if dim != -1])
        dims[dims.index(-1)] = product(old) // max(known, 1)
    if product(dims) != product(old):
        raise context.refuse(
            f"cannot reshape {old} to {new}: {product(old)} elements, {product(dims)} asked for."
        )
    return str(context.onnx.reshape([x, context.shape_const(dims)]))


@translator("flatten", emits="Reshape")
def flatten(context: TranslationContext) -> str:
    """Dimensions start_axis to stop_axis as one."""
    x = context.input("x")
    shape = context.shape(x)
    if not shape:
        return str(context.onnx.reshape([x, context.shape_const([1])]))
    start = int(context.attr("start_axis", 1)) % len(shape)
    stop = int(context.attr("stop_axis", -1)) % len(shape)
    dims = [*shape[:start], product(shape[start : stop + 1]), *shape[stop + 1 :]]
    return str(context.onnx.reshape([x, context.shape_const(dims)]))


@translator("squeeze", emits="Reshape")
def squeeze(context: TranslationContext) -> str:
    """Without the named dimensions of length 1, or without all of them."""
    x = context.input("x")
    shape = context.shape(x)
    axes = {axis % len(shape) for axis in context.ints("axis")} if shape else set()
    drop = axes or set(range(len(shape)))
    dims = [dim for axis, dim in enumerate(shape) if not (axis in drop and dim == 1)]
    return str(context.onnx.reshape([x, context.shape_const(dims)]))


@translator("unsqueeze", emits="Reshape")
def unsqueeze(context: TranslationContext) -> str:
    """With dimensions of length 1 put in, one after another as Paddle counts them."""
    x = context.input("x")
    dims = context.shape(x)
    for axis in context.ints("axis"):
        dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 1)
    return str(context.onnx.reshape([x, context.shape_const(dims)]))


@translator("transpose", emits="Transpose")
def transpose(context: TranslationContext) -> str:
    """Dimensions in another order."""
    x = context.input("x")
    rank = context.rank(x)
    return str(context.onnx.transpose([x], [axis % rank for axis in context.attr("perm")]))


@translator("concat", emits="Concat Identity")
def concat(context: TranslationContext) -> str:
    """Tensors joined along an axis."""
    tensors = context.inputs("x")
    axis = context.ints("axis")[0] % context.rank(tensors[0])
    return str(context.onnx.concat(tensors, axis))


@translator("stack", emits="Reshape Concat")
def stack(context: TranslationContext) -> str:
    """Tensors of one shape joined along a new axis."""
    tensors = context.inputs("x")
    shape = context.shape(tensors[0])
    axis = int(context.attr("axis", 0)) % (len(shape) + 1)
    dims = [*shape[:axis], 1, *shape[axis:]]
    return str(context.onnx.concat([context.reshape(t, dims) for t in tensors], axis))


@translator("split", emits="Split")
def split(context: TranslationContext) -> list[str]:
    """Parts of the given lengths along an axis; one length may be -1."""
    x = context.input("x")
    axis = context.ints("axis")[0] % context.rank(x)
    sections = context.ints("sections")
    if -1 in sections:
        rest = context.shape(x)[axis] - sum(size for size in sections if size != -1)
        sections[sections.index(-1)] = rest
    return [str(t) for t in context.onnx.split([x], len(sections), axis, sections)]


@translator("split_with_num", emits="Split")
def split_with_num(context: TranslationContext) -> list[str]:
    """Equal parts along an axis."""
    x = context.input("x")
    axis = context.ints("axis")[0] % context.rank(x)
    count = int(context.attr("num"))
    size = context.shape(x)[axis] // count
    return [str(t) for t in context.onnx.split([x], count, axis, [size] * count)]


@translator("unstack", "unbind", emits="Split Reshape")
def unstack(context: TranslationContext) -> list[str]:
    """The slices along an axis, without it."""
    x = context.input("x")
    shape = context.shape(x)
    axis = int(context.attr("axis", 0)) % len(shape)
    parts = context.onnx.split([x], shape[axis], axis, [1] * shape[axis])
    dims = shape[:axis] + shape[axis + 1 :]
    return [context.reshape(str(part), dims) for part in parts]


@translator("slice", emits="Slice Reshape", limits="starts and ends must be constant")
def slice_(context: TranslationContext) -> str:
    """A part along some axes; ``decrease_axis`` then drops dimensions of length 1."""
    axes = [int(axis) for axis in context.attr("axes")]
    return _cut(context, axes, [1] * len(axes))


@translator("strided_slice", emits="Slice Reshape", limits="strides must be constant")
def strided_slice(context: TranslationContext) -> str:
    """A part along some axes, every n-th element."""
    return _cut(context, [int(axis) for axis in context.attr("axes")], context.ints("strides"))


def _cut(context: TranslationContext, axes: list[int], steps: list[int]) -> str:
    x = context.input("x" if context.has("x") else "input")
    operands = [context.ints("starts"), context.ints("ends"), axes, steps]
    cut = str(context.onnx.slice([x, *[context.shape_const(item) for item in operands]]))
    drop = {axis % context.rank(x) for axis in context.attr("decrease_axis", ())}
    dims = [dim for axis, dim in enumerate(context.shape(cut)) if axis not in drop]
    return context.reshape(cut, dims)


@translator("expand", emits="Expand")
def expand(context: TranslationContext) -> str:
    """The tensor repeated to a larger shape; -1 keeps a dimension."""
    x = context.input("x")
    old, new = context.shape(x), context.ints("shape")
    lead = len(new) - len(old)
    dims = [old[index - lead] if dim == -1 else dim for index, dim in enumerate(new)]
    return str(context.onnx.expand([x, context.shape_const(dims)]))


@translator("tile", emits="Tile Reshape")
def tile(context: TranslationContext) -> str:
    """The tensor laid side by side; the shorter of shape and repeats gets leading ones."""
    x = context.input("x")
    shape, repeats = context.shape(x), context.ints("repeat_times")
    rank = max(len(shape), len(repeats))
    x = context.reshape(x, [1] * (rank - len(shape)) + shape)
    repeats = [1] * (rank - len(repeats)) + repeats
    return str(context.onnx.tile([x, context.shape_const(repeats)]))


@translator("full_like", emits="Constant")
def full_like(context: TranslationContext) -> str:
    """A constant of a tensor's shape."""
    shape = context.shape(context.input("x"))
    number = context.static("value").reshape(())
    return context.const(np.full(shape, number, dtype=context.output_dtype()))


@translator("full_with_tensor", emits="Constant", limits="shape and value must be constant")
def full_with_tensor(context: TranslationContext) -> str:
    """A constant whose shape is given by a tensor."""
    number = context.static("value").reshape(())
    return context.const(np.full(context.ints("shape"), number, dtype=context.output_dtype()))
