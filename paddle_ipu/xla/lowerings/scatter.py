"""Lowerings of operators that write at positions given by indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

Apply = Callable[[jax.Array, Indices, jax.Array], jax.Array]
"""(data, indices, updates) -> the data with the updates."""

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


def _differentiable(apply: Apply, backward: Callable[[_Residuals, jax.Array], _Gradients]) -> Apply:
    """`apply` with a derivative that is computed from its operands and its result."""
    function = jax.custom_vjp(apply)

    def forward(
        x: jax.Array, positions: Indices, updates: jax.Array
    ) -> tuple[jax.Array, _Residuals]:
        out = function(x, positions, updates)
        return out, (x, positions, updates, out)

    function.defvjp(forward, backward)
    return function


def _max(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    return x.at[positions].max(updates)


def _min(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    return x.at[positions].min(updates)


def _multiply(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
    return x.at[positions].multiply(updates)


def _extreme_backward(kept: _Residuals, gradient: jax.Array) -> _Gradients:
    """Every value that equals the result gets the whole gradient."""
    x, positions, updates, out = kept
    return gradient * (x == out), None, gradient[positions] * (updates == out[positions])


def _multiplied_backward(kept: _Residuals, gradient: jax.Array) -> _Gradients:
    """The product divided by the factor, as in PopART: NaN where that is 0."""
    x, positions, updates, out = kept
    return gradient * out / x, None, (gradient * out)[positions] / updates


def _grid(indices: jax.Array, axis: int) -> Indices:
    """`indices` along one axis; along every other, the position of each index itself."""
    return tuple(
        indices if other == axis else lax.broadcasted_iota(jnp.int32, indices.shape, other)
        for other in range(indices.ndim)
    )


class _Reduction(NamedTuple):
    """What a result without initial values begins with, by dtype, and how updates are applied."""

    identity: Callable[[np.dtype[Any]], float]
    apply: Apply


_REDUCTIONS: Mapping[str, _Reduction] = {
    "sum": _Reduction(lambda dtype: 0, lambda x, at, updates: x.at[at].add(updates)),
    "none": _Reduction(lambda dtype: 0, overwrite),
    "max": _Reduction(_lowest, _differentiable(_max, _extreme_backward)),
    "min": _Reduction(_highest, _differentiable(_min, _extreme_backward)),
    "mul": _Reduction(lambda dtype: 1, _differentiable(_multiply, _multiplied_backward)),
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


def _put_extreme(largest: bool, include: bool) -> Apply:
    """The largest or smallest of the updates of each element, with `include` of x itself too."""
    worst, extreme = (_lowest, _max) if largest else (_highest, _min)

    def apply(x: jax.Array, positions: Indices, updates: jax.Array) -> jax.Array:
        base = x if include else x.at[positions].set(worst(x.dtype))
        return extreme(base, positions, updates)

    def backward(kept: _Residuals, gradient: jax.Array) -> _Gradients:
        """Shared evenly by all that equal the result, with `include` x itself among them."""
        x, positions, updates, out = kept
        equal = updates == out[positions]
        ties = jnp.zeros(x.shape, gradient.dtype).at[positions].add(equal.astype(gradient.dtype))
        written = jnp.zeros(x.shape, jnp.bool_).at[positions].set(True)
        own = jnp.where(x == out, gradient / (ties + 1), 0)
        own = jnp.where(written, own if include else 0, gradient)
        shared = gradient / jnp.maximum(ties + (x == out), 1)
        return own, None, jnp.where(equal, shared[positions], 0)

    return _differentiable(apply, backward)


def _put_multiplied_backward(kept: _Residuals, gradient: jax.Array) -> _Gradients:
    """The product divided by the factor: NaN where a factor is 0."""
    x, positions, updates, out = kept
    written = jnp.zeros(x.shape, jnp.bool_).at[positions].set(True)
    own = jnp.where(written, gradient * out / x, gradient)
    return own, None, gradient[positions] * (out[positions] / updates)


_put_multiplied = _differentiable(_multiply, _put_multiplied_backward)


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
        return _put_extreme(kind == "amax", include)(x, positions, updates)
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
