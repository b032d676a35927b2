"""Lowerings of operators that write at places given by indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.popart.shape_inference.indexing import expanded_indices
from paddle_ipu.xla.lowerings.arrays import checked_axis, input_or_none, is_floating
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

Places = tuple[Any, ...]
"""One array of indices for each indexed axis, as ``x.at[places]`` takes them."""


def _lowest(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).max


@jax.custom_vjp
def overwrite(x: Any, places: Places, updates: Any) -> Any:
    """`x` with `updates` at `places`; of several updates of one place the last stays.

    Every update takes the gradient of its place, as Paddle and PopART have it.
    """
    return x.at[places].set(updates)


def _overwrite_forward(x: Any, places: Places, updates: Any) -> Any:
    return overwrite(x, places, updates), places


def _overwrite_backward(places: Places, gradient: Any) -> Any:
    return gradient.at[places].set(0), None, gradient[places]


overwrite.defvjp(_overwrite_forward, _overwrite_backward)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _extreme(x: Any, places: Places, updates: Any, largest: bool) -> Any:
    at = x.at[places]
    return at.max(updates) if largest else at.min(updates)


def _extreme_forward(x: Any, places: Places, updates: Any, largest: bool) -> Any:
    out = _extreme(x, places, updates, largest)
    return out, (x, places, updates, out)


def _extreme_backward(largest: bool, kept: Any, gradient: Any) -> Any:
    """The whole gradient to every value that equals the result."""
    x, places, updates, out = kept
    return gradient * (x == out), None, gradient[places] * (updates == out[places])


_extreme.defvjp(_extreme_forward, _extreme_backward)


@jax.custom_vjp
def _multiplied(x: Any, places: Places, updates: Any) -> Any:
    return x.at[places].multiply(updates)


def _multiplied_forward(x: Any, places: Places, updates: Any) -> Any:
    out = _multiplied(x, places, updates)
    return out, (x, places, updates, out)


def _multiplied_backward(kept: Any, gradient: Any) -> Any:
    """The product divided by the factor, as PopART has it: not a number where that is 0."""
    x, places, updates, out = kept
    return gradient * out / x, None, (gradient * out)[places] / updates


_multiplied.defvjp(_multiplied_forward, _multiplied_backward)


def _grid(indices: Any, axis: int) -> Places:
    """Places of one axis's `indices`, every other axis at its own position."""
    return tuple(
        indices if at == axis else lax.broadcasted_iota(jnp.int32, indices.shape, at)
        for at in range(indices.ndim)
    )


_REDUCTIONS: dict[str, tuple[Any, Callable[[Any, Places, Any], Any]]] = {
    "sum": (lambda dtype: 0, lambda x, places, updates: x.at[places].add(updates)),
    "none": (lambda dtype: 0, overwrite),
    "max": (_lowest, lambda x, places, updates: _extreme(x, places, updates, True)),
    "min": (_highest, lambda x, places, updates: _extreme(x, places, updates, False)),
    "mul": (lambda dtype: 1, _multiplied),
}
"""What a result without initial values begins with, and how updates are brought in."""


@lowering("ai.graphcore", "ScatterReduce")
def scatter_reduce(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Data reduced by index into an axis of ``axis_size``, or into the initial values.

    Where nothing is written without initial values stands 0, for ``mul`` 1.
    """
    data, indices = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    initial = input_or_none(inputs, 2)
    axis = checked_axis(context, int(attributes.get("axis", -1)), data.ndim)
    grouped = int(attributes.get("group_size", 1)) > 1
    kind = str(attributes.get("reduction", "sum"))
    shape = expanded_indices(indices.shape, data.ndim, axis, grouped)
    if not int(attributes.get("enable_index_broadcast", 1)):
        data = data[tuple(slice(size) for size in shape)]
    begin, write = _REDUCTIONS[kind]
    size = int(attributes["axis_size"]) if initial is None else initial.shape[axis]
    context.within("index", inputs[1], 0, size - 1)
    if initial is None:
        dims = list(data.shape)
        dims[axis] = int(attributes["axis_size"])
        out = jnp.full(dims, begin(data.dtype), data.dtype)
    else:
        out = jnp.asarray(initial)
    rest = data.shape[:axis] + data.shape[axis + 1 :]
    same = out.shape[:axis] + out.shape[axis + 1 :] == rest
    vector = shape[axis] == indices.size and same and not grouped
    if vector:
        # Whole slices: the axis goes to the front, and back at the end.
        places: Places = (indices.reshape(-1),)
        out, data = jnp.moveaxis(out, axis, 0), jnp.moveaxis(data, axis, 0)
    else:
        places = _grid(jnp.broadcast_to(indices.reshape(shape), data.shape), axis)
    out = write(out, places, data)
    if initial is None and kind in ("max", "min"):
        written = jnp.zeros(out.shape, jnp.bool_).at[places].set(True)
        out = jnp.where(written, out, jnp.zeros_like(out))
    return jnp.moveaxis(out, 0, axis) if vector else out


@lowering("ai.onnx", "Scatter", "ScatterElements")
def scatter(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """`data` with `updates` at `indices` along ``axis`` (default 0); below 0 from the end."""
    data, indices, updates = (jnp.asarray(item) for item in inputs)
    axis = checked_axis(context, int(attributes.get("axis", 0)), data.ndim)
    context.within("index", inputs[1], -data.shape[axis], data.shape[axis] - 1)
    indices = jnp.where(indices < 0, indices + data.shape[axis], indices)
    return overwrite(data, _grid(indices, axis), updates)


# put_along_axis: Paddle's derivatives, as its CPU kernels have them.


def _last_writer(x: Any, places: Places, updates: Any) -> Any:
    """For each element of `x` the number of the last update of it, -1 where there is none."""
    numbers = jnp.arange(updates.size, dtype=jnp.int32).reshape(updates.shape)
    return jnp.full(x.shape, -1, jnp.int32).at[places].max(numbers)


@jax.custom_vjp
def _assign(x: Any, places: Places, updates: Any) -> Any:
    writer = _last_writer(x, places, updates)
    return jnp.where(writer < 0, x, updates.reshape(-1)[writer])


def _assign_forward(x: Any, places: Places, updates: Any) -> Any:
    return _assign(x, places, updates), (_last_writer(x, places, updates), places)


def _assign_backward(kept: Any, gradient: Any) -> Any:
    """The last of several updates of one place takes the gradient."""
    writer, places = kept
    numbers = jnp.arange(places[0].size, dtype=jnp.int32).reshape(places[0].shape)
    taken = jnp.where(writer[places] == numbers, gradient[places], 0)
    return jnp.where(writer < 0, gradient, 0), None, taken


_assign.defvjp(_assign_forward, _assign_backward)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _put_extreme(x: Any, places: Places, updates: Any, largest: bool, include: bool) -> Any:
    if not include:
        x = x.at[places].set(_lowest(x.dtype) if largest else _highest(x.dtype))
    at = x.at[places]
    return at.max(updates) if largest else at.min(updates)


def _put_extreme_forward(x: Any, places: Places, updates: Any, largest: bool, include: bool) -> Any:
    out = _put_extreme(x, places, updates, largest, include)
    return out, (x, places, updates, out)


def _put_extreme_backward(largest: bool, include: bool, kept: Any, gradient: Any) -> Any:
    """Shared evenly by all that equal the result, what was there before among them."""
    x, places, updates, out = kept
    equal = updates == out[places]
    ties = jnp.zeros(x.shape, gradient.dtype).at[places].add(equal.astype(gradient.dtype))
    written = jnp.zeros(x.shape, jnp.bool_).at[places].set(True)
    own = jnp.where(x == out, gradient / (ties + 1), 0)
    own = jnp.where(written, own if include else 0, gradient)
    shared = gradient / jnp.maximum(ties + (x == out), 1)
    return own, None, jnp.where(equal, shared[places], 0)


_put_extreme.defvjp(_put_extreme_forward, _put_extreme_backward)


@jax.custom_vjp
def _put_multiplied(x: Any, places: Places, updates: Any) -> Any:
    return x.at[places].multiply(updates)


def _put_multiplied_forward(x: Any, places: Places, updates: Any) -> Any:
    out = _put_multiplied(x, places, updates)
    return out, (x, places, updates, out)


def _put_multiplied_backward(kept: Any, gradient: Any) -> Any:
    """The product divided by the factor: not a number where a factor is 0."""
    x, places, updates, out = kept
    written = jnp.zeros(x.shape, jnp.bool_).at[places].set(True)
    own = jnp.where(written, gradient * out / x, gradient)
    return own, None, gradient[places] * (out[places] / updates)


_put_multiplied.defvjp(_put_multiplied_forward, _put_multiplied_backward)


@lowering("ai.paddle_ipu", "PutAlongAxis")
def put_along_axis(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """`values` brought in at `indices` along ``axis``; those below 0 count from the end.

    Without ``include_self`` what stood at a place that is written does not count. The mean of
    integers is rounded towards zero, with ``rounds_down`` to the next lower one.
    """
    x, indices, updates = (jnp.asarray(item) for item in inputs)
    axis = checked_axis(context, int(attributes["axis"]), x.ndim)
    context.within("index", inputs[1], -x.shape[axis], x.shape[axis] - 1)
    kind, include = str(attributes.get("reduce", "assign")), bool(attributes.get("include_self", 1))
    indices = jnp.where(indices < 0, indices + x.shape[axis], indices)
    places = _grid(indices, axis)
    if kind == "assign":
        return _assign(x, places, updates)
    if kind in ("amax", "amin"):
        return _put_extreme(x, places, updates, kind == "amax", include)
    if kind == "mul":
        return _put_multiplied(
            x if include else overwrite(x, places, jnp.ones_like(updates)), places, updates
        )
    base = x if include else x.at[places].set(0)
    total = base.at[places].add(updates)
    if kind == "add":
        return total
    count = jnp.zeros(x.shape, jnp.int32).at[places].add(1) + (1 if include else 0)
    count = jnp.maximum(count, 1)
    if is_floating(x):
        return total / count
    divide = jnp.floor_divide if attributes.get("rounds_down", 0) else lax.div
    return divide(total, count.astype(total.dtype))
