"""Lowerings of operators that read by index or by order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import (
    Inputs,
    Pair,
    are_constants,
    checked_axis,
    is_floating,
    optional_input,
)
from paddle_ipu.xla.lowerings.registry import Array, Attributes, Lookup, LoweringContext, lowering
from paddle_ipu.xla.lowerings.residuals import rows_and_table


def _from_the_front(indices: jax.Array, size: int) -> jax.Array:
    """Indices with those below zero counted from the end."""
    return jnp.where(indices < 0, indices + size, indices)


@lowering("ai.onnx", "Gather")
def gather(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Slices of `data` along ``axis`` (default 0) at `indices`; those below 0 count from the end.

    Indices out of range raise.
    """
    data, indices = inputs
    axis = checked_axis(context, int(attributes.get("axis", 0)), data.ndim)
    context.within("index", indices, -data.shape[axis], data.shape[axis] - 1)
    if are_constants(inputs):
        return np.asarray(np.take(data, indices, axis=axis))
    if isinstance(indices, np.ndarray) and indices.ndim == 0:
        position = int(indices) % data.shape[axis]
        return lax.index_in_dim(data, position, axis, keepdims=False)
    data = jnp.asarray(data)
    if not data.shape[axis]:
        # Any index is out of range, which a run says; without indices there is nothing to gather.
        return jnp.zeros(data.shape[:axis] + indices.shape + data.shape[axis + 1 :], data.dtype)
    indices = _from_the_front(jnp.asarray(indices), data.shape[axis])
    if context.may_rebind and axis == 0:
        rows, context.rebound[0] = rows_and_table(data, indices, (data.shape, data.dtype))
        return rows
    rows = jnp.take(data, indices, axis=axis, mode="clip")
    if axis == 0 and data.ndim == 2 and not context.training:
        context.lookups[id(rows)] = Lookup(rows, context.input_ids[0], data, indices)
    return rows


@lowering("ai.paddle_ipu", "GatherNd")
def gather_nd(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``data[indices[..., 0], ..., indices[..., K - 1]]`` for indices [..., K]."""
    data, indices = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    if indices.shape[-1] == 0:
        return jnp.broadcast_to(data, indices.shape[:-1] + data.shape)
    position = tuple(indices[..., axis] for axis in range(indices.shape[-1]))
    for size, part in zip(data.shape, position, strict=False):
        context.within("index", part, -size, size - 1)
    return data.at[position].get(mode="clip")


@lowering("ai.paddle_ipu", "TakeAlongAxis")
def take_along_axis(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """For each index the element of `data` at it along ``axis``; those below 0 count from the end.

    Along other axes `data` is sliced to the size of `indices`.
    """
    data, indices = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    axis = checked_axis(context, int(attributes["axis"]), data.ndim)
    context.within("index", indices, -data.shape[axis], data.shape[axis] - 1)
    slices = [slice(None) if at == axis else slice(size) for at, size in enumerate(indices.shape)]
    indices = _from_the_front(indices, data.shape[axis])
    return jnp.take_along_axis(data[tuple(slices)], indices, axis=axis, mode="clip")


@lowering("ai.onnx", "OneHot")
def one_hot(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """`values` [off, on] by whether a position along the new ``axis`` (default -1) is the index.

    Indices from -depth to -1 count from the end; other indices out of range give no "on".
    """
    indices, values = jnp.asarray(inputs[0]), jnp.asarray(inputs[2])
    depth = int(context.static(inputs, 1, "the depth").reshape(()))
    rank = indices.ndim + 1
    axis = checked_axis(context, int(attributes.get("axis", -1)), rank)
    shape = indices.shape[:axis] + (depth,) + indices.shape[axis:]
    expanded = jnp.expand_dims(_from_the_front(indices.astype(jnp.int32), depth), axis)
    is_index = lax.broadcasted_iota(jnp.int32, shape, axis) == expanded
    return jnp.where(is_index, values[1], values[0])


def _order_reversed(x: jax.Array) -> jax.Array:
    """A strictly decreasing function, its own inverse, exact for every number of the dtype."""
    return lax.neg(x) if is_floating(x) else lax.bitwise_not(x)


@lowering("ai.onnx", "TopK")
def top_k(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(values, int32 indices) of the k largest or smallest along ``axis`` (default -1), sorted.

    The constant k is input 1 (opset 10) or an attribute (opset 1). Of ties the first counts.
    """
    x = jnp.asarray(inputs[0])
    axis = checked_axis(context, int(attributes.get("axis", -1)), x.ndim)
    k = (
        int(attributes["k"])
        if optional_input(inputs, 1) is None
        else int(context.static(inputs, 1, "k").reshape(()))
    )
    last = jnp.moveaxis(x, axis, -1)
    if attributes.get("largest", 1):
        values, indices = lax.top_k(last, k)
    else:
        values, indices = lax.top_k(_order_reversed(last), k)
        values = _order_reversed(values)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis)


@lowering("ai.graphcore", "Sort")
def sort(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(values, int32 indices) in ascending or ``descending`` order along ``axis``; stable."""
    x = jnp.asarray(inputs[0])
    axis = checked_axis(context, int(attributes.get("axis", -1)), x.ndim)
    indices = jnp.argsort(x, axis=axis, descending=bool(attributes.get("descending", 0)))
    return jnp.take_along_axis(x, indices, axis=axis, mode="promise_in_bounds"), indices
