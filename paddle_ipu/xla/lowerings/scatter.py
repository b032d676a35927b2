"""Lowerings of operators that write at positions given by indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.popart.shape_inference.indexing import expanded_indices
from paddle_ipu.xla.lowerings.arrays import Inputs, checked_axis, is_floating, optional_input
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

Indices = tuple[jax.Array, ...]
"""One array for each indexed axis, as ``x.at[indices]`` takes them."""

_Residuals = tuple[jax.Array, Indices, jax.Array, jax.Array]
"""(data, indices, updates, result)."""

_Gradients = tuple[jax.Array, None, jax.Array]
"""Of the data and the updates; the indices have none."""


def _lowest(dtype: np.dtype[Any]) -> float:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> float:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).max


@jax.custom_vjp
def overwrite(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    """`x` with `updates` at `positions`; of several updates of one element the last stays.

    Every update gets the gradient of its element, as in Paddle and PopART.
    """
    return x.at[positions].set(updates)


def _overwrite_forward(
    x: jax.Array, positions: Indices, updates: jax.Array
) -> tuple[jax.Array, Indices]:
    return overwrite(x, positions, updates), positions


def _overwrite_backward(positions: Indices, gradient: jax.Array) -> _Gradients:
    return gradient.at[positions].set(0), None, gradient[positions]


overwrite.defvjp(_overwrite_forward, _overwrite_backward)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _extreme(x: jax.Array, positions: Indices, updates: jax.Array, largest: bool) -> jax.Array:
    at = x.at[positions]
    return at.max(updates) if largest else at.min(updates)


def _extreme_forward(
    x: jax.Array, positions: Indices, updates: jax.Array, largest: bool
) -> tuple[jax.Array, _Residuals]:
    out = _extreme(x, positions, updates, largest)
    return out, (x, positions, updates, out)


def _extreme_backward(largest: bool, kept: _Residuals, gradient: jax.Array) -> _Gradients:
    """Every value that equals the result gets the whole gradient."""
    x, positions, updates, out = kept
    return gradient * (x == out), None, gradient[positions] * (updates == out[positions])


_extreme.defvjp(_extreme_forward, _extreme_backward)


@jax.custom_vjp
def _multiplied(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    return x.at[positions].multiply(updates)


def _multiplied_forward(
    x: jax.Array, positions: Indices, updates: jax.Array
) -> tuple[jax.Array, _Residuals]:
    out = _multiplied(x, positions, updates)
    return out, (x, positions, updates, out)


def _multiplied_backward(kept: _Residuals, gradient: jax.Array) -> _Gradients:
    """The product divided by the factor, as in PopART: NaN where that is 0."""
    x, positions, updates, out = kept
    return gradient * out / x, None, (gradient * out)[positions] / updates


_multiplied.defvjp(_multiplied_forward, _multiplied_backward)


def _grid(indices: jax.Array, axis: int) -> Indices:
    """`indices` along one axis; along every other, the position of each index itself."""
    return tuple(
        indices if other == axis else lax.broadcasted_iota(jnp.int32, indices.shape, other)
        for other in range(indices.ndim)
    )


class _Reduction(NamedTuple):
    """What a result without initial values begins with, by dtype, and how updates are applied."""

    identity: Callable[[np.dtype[Any]], float]
    apply: Callable[[jax.Array, Indices, jax.Array], jax.Array]


_REDUCTIONS: Mapping[str, _Reduction] = {
    "sum": _Reduction(lambda dtype: 0, lambda x, at, updates: x.at[at].add(updates)),
    "none": _Reduction(lambda dtype: 0, overwrite),
    "max": _Reduction(_lowest, lambda x, at, updates: _extreme(x, at, updates, True)),
    "min": _Reduction(_highest, lambda x, at, updates: _extreme(x, at, updates, False)),
    "mul": _Reduction(lambda dtype: 1, _multiplied),
}


@lowering("ai.graphcore", "ScatterReduce")
def scatter_reduce(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Data reduced by index into an axis of ``axis_size``, or into the initial values.

    Without initial values, elements that no index names are 0, for ``mul`` 1. With ``group_size``
    above 1 the first axis is groups, each with indices of its own.
    """
    data, indices = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    initial = optional_input(inputs, 2)
    axis = checked_axis(context, int(attributes.get("axis", -1)), data.ndim)
    grouped = int(attributes.get("group_size", 1)) > 1
    kind = str(attributes.get("reduction", "sum"))
    shape = expanded_indices(indices.shape, data.ndim, axis, grouped)
    if not int(attributes.get("enable_index_broadcast", 1)):
        data = data[tuple(slice(size) for size in shape)]
    reduction = _REDUCTIONS[kind]
    size = int(attributes["axis_size"]) if initial is None else initial.shape[axis]
    context.within("index", inputs[1], 0, size - 1)
    if initial is None:
        dims = list(data.shape)
        dims[axis] = int(attributes["axis_size"])
        out = jnp.full(dims, reduction.identity(data.dtype), data.dtype)
    else:
        out = jnp.asarray(initial)
    rest = data.shape[:axis] + data.shape[axis + 1 :]
    same = out.shape[:axis] + out.shape[axis + 1 :] == rest
    whole_slices = shape[axis] == indices.size and same and not grouped
    if whole_slices:
        # One index for each slice: the axis goes to the front, and back at the end.
        positions: Indices = (indices.reshape(-1),)
        out, data = jnp.moveaxis(out, axis, 0), jnp.moveaxis(data, axis, 0)
    else:
        positions = _grid(jnp.broadcast_to(indices.reshape(shape), data.shape), axis)
    out = reduction.apply(out, positions, data)
    if initial is None and kind in ("max", "min"):
        written = jnp.zeros(out.shape, jnp.bool_).at[positions].set(True)
        out = jnp.where(written, out, jnp.zeros_like(out))
    return jnp.moveaxis(out, 0, axis) if whole_slices else out


@lowering("ai.onnx", "Scatter", "ScatterElements")
def scatter(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """`data` with `updates` at `indices` along ``axis`` (default 0); below 0 from the end."""
    data, indices, updates = (jnp.asarray(item) for item in inputs)
    axis = checked_axis(context, int(attributes.get("axis", 0)), data.ndim)
    context.within("index", inputs[1], -data.shape[axis], data.shape[axis] - 1)
    indices = jnp.where(indices < 0, indices + data.shape[axis], indices)
    return overwrite(data, _grid(indices, axis), updates)


# The rest is PutAlongAxis, with the derivatives of Paddle's CPU kernels, which differ from those of
# PopART's operators above.


def _last_writer(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    """For each element of `x` the number of the last update of it, -1 where there is none."""
    numbers = jnp.arange(updates.size, dtype=jnp.int32).reshape(updates.shape)
    return jnp.full(x.shape, -1, jnp.int32).at[positions].max(numbers)


@jax.custom_vjp
def _assign(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    writer = _last_writer(x, positions, updates)
    return jnp.where(writer < 0, x, updates.reshape(-1)[writer])


def _assign_forward(
    x: jax.Array, positions: Indices, updates: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, Indices]]:
    return _assign(x, positions, updates), (_last_writer(x, positions, updates), positions)


def _assign_backward(kept: tuple[jax.Array, Indices], gradient: jax.Array) -> _Gradients:
    """Of several updates of one element the last gets the gradient."""
    writer, positions = kept
    numbers = jnp.arange(positions[0].size, dtype=jnp.int32).reshape(positions[0].shape)
    of_updates = jnp.where(writer[positions] == numbers, gradient[positions], 0)
    return jnp.where(writer < 0, gradient, 0), None, of_updates


_assign.defvjp(_assign_forward, _assign_backward)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _put_extreme(
    x: jax.Array, positions: Indices, updates: jax.Array, largest: bool, include: bool
) -> jax.Array:
    if not include:
        x = x.at[positions].set(_lowest(x.dtype) if largest else _highest(x.dtype))
    at = x.at[positions]
    return at.max(updates) if largest else at.min(updates)


def _put_extreme_forward(
    x: jax.Array, positions: Indices, updates: jax.Array, largest: bool, include: bool
) -> tuple[jax.Array, _Residuals]:
    out = _put_extreme(x, positions, updates, largest, include)
    return out, (x, positions, updates, out)


def _put_extreme_backward(
    largest: bool, include: bool, kept: _Residuals, gradient: jax.Array
) -> _Gradients:
    """Shared evenly by all that equal the result, with `include` x itself among them."""
    x, positions, updates, out = kept
    equal = updates == out[positions]
    ties = jnp.zeros(x.shape, gradient.dtype).at[positions].add(equal.astype(gradient.dtype))
    written = jnp.zeros(x.shape, jnp.bool_).at[positions].set(True)
    own = jnp.where(x == out, gradient / (ties + 1), 0)
    own = jnp.where(written, own if include else 0, gradient)
    shared = gradient / jnp.maximum(ties + (x == out), 1)
    return own, None, jnp.where(equal, shared[positions], 0)


_put_extreme.defvjp(_put_extreme_forward, _put_extreme_backward)


@jax.custom_vjp
def _put_multiplied(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    return x.at[positions].multiply(updates)


def _put_multiplied_forward(
    x: jax.Array, positions: Indices, updates: jax.Array
) -> tuple[jax.Array, _Residuals]:
    out = _put_multiplied(x, positions, updates)
    return out, (x, positions, updates, out)


def _put_multiplied_backward(kept: _Residuals, gradient: jax.Array) -> _Gradients:
    """The product divided by the factor: NaN where a factor is 0."""
    x, positions, updates, out = kept
    written = jnp.zeros(x.shape, jnp.bool_).at[positions].set(True)
    own = jnp.where(written, gradient * out / x, gradient)
    return own, None, gradient[positions] * (out[positions] / updates)


_put_multiplied.defvjp(_put_multiplied_forward, _put_multiplied_backward)


@lowering("ai.paddle_ipu", "PutAlongAxis")
def put_along_axis(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """`updates` reduced into `x` at `indices` along ``axis``; indices below 0 count from the end.

    Without ``include_self`` the old value of a written element does not count. The mean of integers
    is rounded towards zero, with ``rounds_down`` to the next lower one.
    """
    x, indices, updates = (jnp.asarray(item) for item in inputs)
    axis = checked_axis(context, int(attributes["axis"]), x.ndim)
    context.within("index", inputs[1], -x.shape[axis], x.shape[axis] - 1)
    kind, include = str(attributes.get("reduce", "assign")), bool(attributes.get("include_self", 1))
    indices = jnp.where(indices < 0, indices + x.shape[axis], indices)
    positions = _grid(indices, axis)
    if kind == "assign":
        return _assign(x, positions, updates)
    if kind in ("amax", "amin"):
        return _put_extreme(x, positions, updates, kind == "amax", include)
    if kind == "mul":
        return _put_multiplied(
            x if include else overwrite(x, positions, jnp.ones_like(updates)), positions, updates
        )
    base = x if include else x.at[positions].set(0)
    total = base.at[positions].add(updates)
    if kind == "add":
        return total
    count = jnp.zeros(x.shape, jnp.int32).at[positions].add(1) + (1 if include else 0)
    count = jnp.maximum(count, 1)
    if is_floating(x):
        return total / count
    divide = jnp.floor_divide if attributes.get("rounds_down", 0) else lax.div
    return divide(total, count.astype(total.dtype))
