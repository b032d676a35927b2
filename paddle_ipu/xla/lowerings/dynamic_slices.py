"""Lowerings of slices at offsets computed at run time, and of grouped and strided reads."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from paddle_ipu.xla.lowerings.arrays import (
    Inputs,
    checked_axes,
    checked_axis,
    integers,
    optional_input,
)
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering


def _slice_indices(
    context: LoweringContext, x: jax.Array, offset: Array, attributes: Attributes
) -> tuple[jax.Array, ...]:
    """The slice's indices of each axis; past the end it wraps to the front, as in Poplar."""
    axes = checked_axes(context, integers(attributes, "axes") or [], x.ndim)
    sizes = dict(zip(axes, integers(attributes, "sizes") or [], strict=True))
    starts = dict(zip(axes, jnp.asarray(offset).reshape(-1).astype(jnp.int32), strict=True))
    indices = [
        (starts[axis] + jnp.arange(sizes[axis])) % x.shape[axis]
        if axis in sizes
        else jnp.arange(x.shape[axis])
        for axis in range(x.ndim)
    ]
    return tuple(jnp.meshgrid(*indices, indexing="ij"))


@lowering("ai.graphcore", "DynamicSlice")
def dynamic_slice(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The slice of ``sizes`` along ``axes`` that begins at the offset, in the third's shape."""
    x = jnp.asarray(inputs[0])
    part = x[_slice_indices(context, x, inputs[1], attributes)]
    into = optional_input(inputs, 2)
    return part if into is None else part.reshape(into.shape)


@lowering("ai.graphcore", "DynamicUpdate")
def dynamic_update(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor with the slice replaced."""
    x = jnp.asarray(inputs[0])
    return x.at[_slice_indices(context, x, inputs[1], attributes)].set(
        inputs[2], unique_indices=True
    )


@lowering("ai.graphcore", "DynamicZero")
def dynamic_zero(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor with the slice set to zero."""
    x = jnp.asarray(inputs[0])
    return x.at[_slice_indices(context, x, inputs[1], attributes)].set(0, unique_indices=True)


@lowering("ai.graphcore", "DynamicAdd")
def dynamic_add(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor with something added to the slice."""
    x = jnp.asarray(inputs[0])
    return x.at[_slice_indices(context, x, inputs[1], attributes)].add(
        inputs[2], unique_indices=True
    )


@lowering("ai.graphcore", "GroupedGather")
def grouped_gather(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Slices of the data along ``axis`` (default 0) at indices below its size.

    With ``group_size`` above 1 the first axis of both is groups, each with indices of its own.
    """
    data, indices = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    axis = checked_axis(context, int(attributes.get("axis", 0)), data.ndim)
    context.within("index", inputs[1], 0, data.shape[axis] - 1)
    if int(attributes.get("group_size", 1)) == 1:
        return jnp.take(data, indices, axis=axis, mode="clip")
    return jax.vmap(lambda x, rows: jnp.take(x, rows, axis=axis - 1, mode="clip"))(data, indices)


@lowering("ai.graphcore", "Subsample")
def subsample(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Every n-th element along each axis, the first included."""
    strides = integers(attributes, "strides") or []
    return inputs[0][tuple(slice(None, None, stride) for stride in strides)]


def last_sequence(starts: jax.Array, counts: jax.Array, rows: int) -> tuple[jax.Array, jax.Array]:
    """(whether a sequence has each of so many rows, the last sequence that does)."""
    row = jnp.arange(rows, dtype=jnp.int32)
    inside = (row >= starts[:, None]) & (row < (starts + counts)[:, None])
    return inside.any(axis=0), inside.shape[0] - 1 - jnp.argmax(inside[::-1], axis=0)


@lowering("ai.graphcore", "SequenceSlice")
def sequence_slice(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The destination with rows of the source, several sequences of them, copied over its own.

    Inputs: source, destination, and for each sequence its length, first row in the source, and
    first row in the destination. With ``zeroUnused`` the other rows are zero. Where sequences
    overlap the last one counts.
    """
    source, out = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    counts, starts, targets = (
        jnp.asarray(item).reshape(-1).astype(jnp.int32) for item in inputs[2:]
    )
    used, last = last_sequence(targets, counts, out.shape[0])
    place = jnp.arange(out.shape[0]) - targets[last] + starts[last]
    copied = jnp.take(source, place, axis=0, mode="clip")
    rest = jnp.zeros_like(out) if int(attributes.get("zeroUnused", 0)) else out
    return jnp.where(used.reshape(-1, *[1] * (out.ndim - 1)), copied, rest)
