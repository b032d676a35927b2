"""Lowerings of operators that move, cut, join or retype tensors; constants stay constants."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.popart.enums import DataType
from paddle_ipu.popart.integer_widths import SATURATES
from paddle_ipu.popart.shape_inference.shaping import slice_range
from paddle_ipu.popart.wide_integers import check_fits
from paddle_ipu.xla.lowerings.arrays import (
    Constant,
    Inputs,
    are_constants,
    array_module,
    checked_axes,
    checked_axis,
    element_type,
    integers,
    optional_input,
    static_integers,
    where_in_program,
)
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering
from paddle_ipu.xla.precision.integers import as_in_c

# A larger filled tensor is made on the device rather than stored in the program.
_LARGEST_STORED_FILL = 1024


@lowering("ai.onnx", "Identity")
@lowering("ai.graphcore", "Nop", "TensorRemap")
def identity(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """The tensor itself."""
    return inputs[0]


@lowering("ai.graphcore", "Detach")
def detach(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """The tensor itself; no gradient passes."""
    return inputs[0] if are_constants(inputs) else lax.stop_gradient(inputs[0])


@lowering("ai.onnx", "Cast")
def cast(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Elements converted to the data type ``to``; 64-bit types become their 32-bit ones.

    In a Paddle program INT64 has 64 bits, and floats become integers as in C.
    """
    to = element_type(context, attributes["to"])
    if isinstance(inputs[0], np.ndarray) and to.kind in "iu":
        if inputs[0].dtype == np.int64 and attributes["to"] in (DataType.INT64, "INT64"):
            return inputs[0]
        if attributes.get(SATURATES):
            return np.clip(inputs[0], np.iinfo(to).min, np.iinfo(to).max).astype(to)
        if not context.integers_of_paddle:
            check_fits(inputs[0], str(context.input_ids[0]), f"{where_in_program(context)}: ")
    if context.integers_of_paddle and to.kind in "iu":
        return as_in_c(inputs[0], to)
    return inputs[0].astype(to)


@lowering("ai.onnx", "Constant")
def constant(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Constant:
    """The attribute ``value``."""
    return np.asarray(attributes["value"])


@lowering("ai.onnx", "ConstantOfShape")
def constant_of_shape(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """A tensor of the constant shape, filled with ``value`` (default: float32 zero)."""
    shape = tuple(static_integers(context, inputs, 0, "the shape"))
    value = np.asarray(attributes.get("value", np.zeros(1, np.float32))).reshape(())
    module = np if np.prod(shape) <= _LARGEST_STORED_FILL else jnp
    out: Array = module.full(shape, value)
    return out


@lowering("ai.graphcore", "Init")
def init(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """A tensor of zeros; PopART's may hold anything where ``init_type`` is NoInit."""
    dtype = element_type(context, DataType(attributes["data_type"]).name)
    return jnp.zeros(tuple(attributes["shape"]), dtype)


@lowering("ai.onnx", "Shape")
def shape_(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Constant:
    """The shape as a constant vector."""
    return np.asarray(inputs[0].shape, dtype=np.int32)


def _reshaped(context: LoweringContext, x: Array, shape: Sequence[int]) -> Array:
    """`x` in `shape`, where 0 keeps the axis of that position and one -1 takes what is left."""
    if any(size == 0 and position >= x.ndim for position, size in enumerate(shape)):
        raise LoweringError(
            f"{where_in_program(context)}: shape {list(shape)} keeps an axis that a tensor of "
            f"shape {list(x.shape)} does not have; 0 stands for the same axis of the input."
        )
    target = [x.shape[position] if size == 0 else size for position, size in enumerate(shape)]
    known = int(np.prod([size for size in target if size != -1], dtype=np.int64))
    fits = x.size == known if -1 not in target else known and x.size % known == 0
    if not fits or target.count(-1) > 1:
        raise LoweringError(
            f"{where_in_program(context)}: a tensor of shape {list(x.shape)} does not reshape "
            f"to {list(shape)}; the number of elements must stay the same."
        )
    return x.reshape(tuple(target))


@lowering("ai.onnx", "Reshape")
def reshape(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """The tensor in the constant shape, where 0 keeps an axis and -1 is inferred."""
    return _reshaped(context, inputs[0], static_integers(context, inputs, 1, "the shape"))


@lowering("ai.graphcore", "Reshape")
def reshape_by_attribute(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """The tensor in the attribute ``shape``, where 0 keeps an axis and -1 is inferred."""
    return _reshaped(context, inputs[0], [int(size) for size in attributes["shape"]])


@lowering("ai.onnx", "Flatten")
def flatten(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """A matrix of the axes before ``axis`` (default 1) by those from it on."""
    x, axis = inputs[0], int(attributes.get("axis", 1))
    if axis != x.ndim:
        axis = checked_axis(context, axis, x.ndim)
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return x.reshape(rows, int(np.prod(x.shape[axis:], dtype=np.int64)))


@lowering("ai.onnx", "Transpose")
def transpose(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """The axes in the order ``perm`` (default: reversed)."""
    return inputs[0].transpose(integers(attributes, "perm"))


@lowering("ai.onnx", "Squeeze")
def squeeze(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Without the axes ``axes``, which must have size 1 (default: every such axis)."""
    x, axes = inputs[0], integers(attributes, "axes")
    if axes is None:
        axes = [axis for axis, size in enumerate(x.shape) if size == 1]
    dropped = checked_axes(context, axes, x.ndim)
    if any(x.shape[axis] != 1 for axis in dropped):
        raise LoweringError(
            f"{where_in_program(context)}: cannot squeeze axes {axes} of shape {list(x.shape)}; "
            "an axis must have size 1."
        )
    return x.reshape(tuple(size for axis, size in enumerate(x.shape) if axis not in dropped))


@lowering("ai.onnx", "Unsqueeze")
def unsqueeze(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """With an axis of size 1 at each of ``axes``, counted in the result."""
    axes = integers(attributes, "axes") or []
    rank = inputs[0].ndim + len(axes)
    out: Array = array_module(inputs).expand_dims(inputs[0], checked_axes(context, axes, rank))
    return out


@lowering("ai.onnx", "Concat")
def concat(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """The tensors joined along ``axis``."""
    axis = checked_axis(context, int(attributes["axis"]), inputs[0].ndim)
    if axis == 1 and inputs[0].ndim == 2 and len(inputs) > 1:
        rows = _one_lookup(context, inputs)
        if rows is not None:
            return rows
    out: Array = array_module(inputs).concatenate(list(inputs), axis=axis)
    return out


def _one_lookup(context: LoweringContext, inputs: Inputs) -> jax.Array | None:
    """The inputs [N, D] side by side by one Gather, where all are rows of one table; else None.

    XLA runs several Gathers on several threads, which for a few rows takes longer than one Gather.
    """
    sources = context.sources or [None] * len(inputs)
    lookups = [
        context.lookups.get(id(x if source is None else source))
        for x, source in zip(inputs, sources, strict=True)
    ]
    first = lookups[0]
    if first is None:
        return None
    indices = []
    for x, lookup in zip(inputs, lookups, strict=True):
        if lookup is None or lookup.table is None or lookup.table != first.table:
            return None
        if x.shape != (lookup.indices.size, first.data.shape[1]):
            return None
        indices.append(lookup.indices.reshape(-1, 1))
    rows = jnp.take(first.data, jnp.concatenate(indices, axis=1), axis=0, mode="clip")
    return rows.reshape(inputs[0].shape[0], -1)


@lowering("ai.onnx", "Split")
def split(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> list[Array]:
    """Pieces along ``axis`` (default 0) of the sizes ``split`` (default: equal)."""
    x = inputs[0]
    axis = checked_axis(context, int(attributes.get("axis", 0)), x.ndim)
    sizes = integers(attributes, "split")
    if sizes is None and x.shape[axis] % context.num_outputs == 0:
        sizes = [x.shape[axis] // context.num_outputs] * context.num_outputs
    if sizes is None or sum(sizes) != x.shape[axis] or len(sizes) != context.num_outputs:
        raise LoweringError(
            f"{where_in_program(context)}: axis {axis} of shape {list(x.shape)} does not split "
            f"into {context.num_outputs} outputs of sizes {sizes or 'that are equal'}."
        )
    ends = np.cumsum(sizes).tolist()
    before = (slice(None),) * axis
    return [x[(*before, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True)]


def _python_slice(start: int, end: int, step: int, size: int) -> slice:
    """ONNX's slice of an axis of `size` as a Python slice."""
    elements = slice_range(size, start, end, step)
    if not elements:
        return slice(0, 0)
    return slice(elements.start, None if elements.stop < 0 else elements.stop, step)


def _sliced(
    context: LoweringContext,
    x: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Array:
    chosen = checked_axes(context, range(len(starts)) if axes is None else axes, x.ndim)
    steps = [1] * len(starts) if steps is None else steps
    if 0 in steps or not len(starts) == len(ends) == len(chosen) == len(steps):
        raise LoweringError(
            f"{where_in_program(context)}: starts {list(starts)}, ends {list(ends)}, axes "
            f"{list(chosen)} and steps {list(steps)} must have one length, and no step may be 0."
        )
    slices = [slice(None)] * x.ndim
    for axis, start, end, step in zip(chosen, starts, ends, steps, strict=True):
        slices[axis] = _python_slice(start, end, step, x.shape[axis])
    out: Array = x[tuple(slices)]
    return out


@lowering("ai.onnx", "Slice")
def slice_(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Part of a tensor: starts, ends, axes, steps as constant inputs, or as attributes."""
    if len(inputs) == 1:
        part: Array = slice_by_attributes(context, inputs, attributes)
        return part
    starts, ends = (
        static_integers(context, inputs, index, what)
        for index, what in ((1, "starts"), (2, "ends"))
    )
    axes, steps = (
        None
        if optional_input(inputs, index) is None
        else static_integers(context, inputs, index, what)
        for index, what in ((3, "axes"), (4, "steps"))
    )
    return _sliced(context, inputs[0], starts, ends, axes, steps)


@lowering("ai.graphcore", "Slice")
def slice_by_attributes(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Part of a tensor: the attributes ``starts``, ``ends`` and, optionally, ``axes``."""
    starts, ends = integers(attributes, "starts") or [], integers(attributes, "ends") or []
    return _sliced(context, inputs[0], starts, ends, integers(attributes, "axes"), None)


@lowering("ai.onnx", "Expand")
def expand(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor broadcast with the constant shape; either may have the longer axis."""
    shape = np.broadcast_shapes(
        inputs[0].shape, tuple(static_integers(context, inputs, 1, "the shape"))
    )
    return jnp.broadcast_to(inputs[0], shape)


@lowering("ai.onnx", "Tile")
def tile(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor repeated along each axis."""
    return jnp.tile(inputs[0], tuple(static_integers(context, inputs, 1, "the repeats")))


@lowering("ai.graphcore", "Reverse")
def reverse(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor with the order of elements reversed along ``dimensions``."""
    axes = integers(attributes, "dimensions") or []
    return lax.rev(jnp.asarray(inputs[0]), checked_axes(context, axes, inputs[0].ndim))


@lowering("ai.onnx", "Pad")
def pad(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor padded by ``pads`` (all begins, then all ends) in ``mode``.

    Constant pads may be negative, which cuts. The pads and the fill value are inputs 1 and 2
    (opset 11) or the attributes ``pads`` and ``value`` (opset 2).
    """
    x = jnp.asarray(inputs[0])
    pads = integers(attributes, "pads")
    if pads is None:
        pads = static_integers(context, inputs, 1, "the pads")
    widths = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    mode = attributes.get("mode", "constant")
    if mode == "constant":
        value = optional_input(inputs, 2)
        value = attributes.get("value", 0.0) if value is None else value
        fill = jnp.asarray(value).astype(x.dtype).reshape(())
        return lax.pad(x, fill, [(low, high, 0) for low, high in widths])
    if mode not in ("reflect", "edge") or min(pads) < 0:
        raise LoweringError(
            f"{where_in_program(context)}: pads {pads} in mode {mode!r}; the modes are "
            "'constant', 'reflect' and 'edge', and only 'constant' takes negative pads."
        )
    return jnp.pad(x, widths, mode=mode)
