"""Lowerings of pooling over tensors [N, C, spatial axes]."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.kernels import channel_sums
from paddle_ipu.xla.lowerings import channels_last
from paddle_ipu.xla.lowerings.arrays import (
    Inputs,
    Pair,
    Single,
    integers,
    is_floating,
    lowest_number,
    where_in_program,
)
from paddle_ipu.xla.lowerings.channels_last import Geometry, Ints, Padding
from paddle_ipu.xla.lowerings.convolution import explicit_padding
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

_LARGEST_SLICED_WINDOW = 27
"""Elements of a window up to which a slice of x for each is compared with the others."""


class _Pool(NamedTuple):
    """Windows, one entry for each spatial axis."""

    kernel: Ints
    strides: Ints
    padding: Padding


def _pool(context: LoweringContext, x: jax.Array, attributes: Attributes) -> _Pool:
    """The windows of an operator; with ``ceil_mode`` the padding behind the data grows."""
    kernel = tuple(int(size) for size in attributes["kernel_shape"])
    strides = tuple(integers(attributes, "strides") or [1] * len(kernel))
    padding = explicit_padding(context, attributes, x.shape[2:], kernel, strides)
    if attributes.get("ceil_mode", 0) and attributes.get("auto_pad", "NOTSET") == "NOTSET":
        padding = tuple(
            (before, after + -(size + before + after - window) % stride)
            for size, window, stride, (before, after) in zip(
                x.shape[2:], kernel, strides, padding, strict=True
            )
        )
    return _Pool(kernel, strides, padding)


def _maximum_in_order(largest: Any, element: Any) -> jax.Array:
    """The step of Paddle's kernel: any element replaces NaN, and NaN replaces any."""
    return jnp.where(largest > element, largest, element)


def _maximum_but_padding(largest: Any, element: Any) -> jax.Array:
    """The same, but that padding, -inf, does not replace NaN."""
    return jnp.where((largest > element) | (element == -np.inf), largest, element)


def _reduce_windows(x: jax.Array, initial: Any, step: Any, pool: _Pool) -> jax.Array:
    padding = [(0, 0), *pool.padding, (0, 0)]
    window, strides = (1, *pool.kernel, 1), (1, *pool.strides, 1)
    out: jax.Array = lax.reduce_window(x, initial, step, window, strides, padding)
    return out


def _slices(x: jax.Array, pool: _Pool, fill: float | jax.Array) -> list[jax.Array]:
    """Each element of a window, in all windows of x [N, ..., C]."""
    no_dilation = (1,) * len(pool.kernel)
    geometry = Geometry(pool.strides, pool.padding, no_dilation, no_dilation)
    return channels_last.window_slices(x, pool.kernel, geometry, fill)


def _maximum_of_slices(x: jax.Array, pool: _Pool) -> jax.Array:
    """The maximum of each window, whose elements are compared in their order."""
    fill: Any = lowest_number(x)
    step: Any = lax.max
    if is_floating(x):
        padded = any(map(any, pool.padding))
        fill, step = (-np.inf, _maximum_but_padding) if padded else (fill, _maximum_in_order)
    initial: Any = lowest_number(x)
    out: jax.Array = functools.reduce(step, _slices(x, pool, fill), initial)
    return out


def _is_sliced(x: jax.Array, pool: _Pool) -> bool:
    """Whether windows are small, and inside of x."""
    fits = all(
        size + sum(pads) >= reach
        for size, pads, reach in zip(x.shape[1:-1], pool.padding, pool.kernel, strict=True)
    )
    return math.prod(pool.kernel) <= _LARGEST_SLICED_WINDOW and bool(x.size) and fits


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _window_max(x: jax.Array, pool: _Pool) -> jax.Array:
    """Maximum of each window of x [N, ..., C], in that layout.

    In training the gradient goes to its first maximum, as in Paddle.
    """
    if _is_sliced(x, pool):
        # XLA's reduce_window goes through windows element by element and promises no order.
        return _maximum_of_slices(x, pool)
    step = _maximum_in_order if is_floating(x) else lax.max
    return _reduce_windows(x, lowest_number(x), step, pool)


def _window_max_forward(x: jax.Array, pool: _Pool) -> tuple[jax.Array, Pair]:
    out = _window_max(x, pool)
    return out, (x, out)


def _window_max_backward(pool: _Pool, kept: Pair, gradient: jax.Array) -> Single:
    x, out = kept
    # No element is equal to NaN, nor to the lowest number of a window that has no larger one.
    gradient = jnp.where(out > lowest_number(x), gradient, jnp.zeros_like(gradient))
    if not _is_sliced(x, pool):
        below = np.asarray(-np.inf, x.dtype)
        _, pull = jax.vjp(lambda x: _reduce_windows(x, below, lax.max, pool), x)
        return (pull(gradient)[0],)
    # The number of the first maximum. In memory, since every element of a window reads it.
    where = jnp.full(out.shape, math.prod(pool.kernel), jnp.int8)
    for number, element in reversed([*enumerate(_slices(x, pool, -np.inf))]):
        where = jnp.where(element == out, np.int8(number), where)
    where = lax.optimization_barrier(where)  # type: ignore[no-untyped-call]
    zero = jnp.zeros_like(gradient)
    shares = [
        jnp.where(where == number, gradient, zero) for number in range(math.prod(pool.kernel))
    ]
    return (_scattered(shares, x.shape, pool),)


_window_max.defvjp(_window_max_forward, _window_max_backward)


def _scattered(shares: Sequence[jax.Array], shape: Sequence[int], pool: _Pool) -> jax.Array:
    """The sum, for each place of x, of what the windows have for it; transposed slices.

    Places are taken apart by their rest, divided by the stride: the windows of an element of theirs
    lie side by side there.

    Args:
        shares: by element of a window, [N, windows, ..., C].
        shape: of x.
        pool: the windows.
    """
    windows, rank = shares[0].shape[1:-1], len(pool.kernel)
    padded = [size + sum(pads) for size, pads in zip(shape[1:-1], pool.padding, strict=True)]
    lengths = [-(-size // stride) for size, stride in zip(padded, pool.strides, strict=True)]
    sums = dict[Ints, jax.Array]()
    for element, share in zip(itertools.product(*map(range, pool.kernel)), shares, strict=True):
        before = [at // stride for at, stride in zip(element, pool.strides, strict=True)]
        around = [
            (first, length - first - count, 0)
            for first, length, count in zip(before, lengths, windows, strict=True)
        ]
        rest = tuple(at % stride for at, stride in zip(element, pool.strides, strict=True))
        placed = lax.pad(share, np.zeros((), share.dtype), [(0, 0, 0), *around, (0, 0, 0)])
        sums[rest] = sums[rest] + placed if rest in sums else placed
    nothing = jnp.zeros((shape[0], *lengths, shape[-1]), shares[0].dtype)
    rests = [sums.get(rest, nothing) for rest in itertools.product(*map(range, pool.strides))]
    whole = jnp.stack(rests).reshape(*pool.strides, *nothing.shape)
    # [strides, N, lengths, C] with the stride of an axis behind its length.
    order = [rank, *(axis for a in range(rank) for axis in (rank + 1 + a, a)), 2 * rank + 1]
    whole = whole.transpose(order)
    sizes = [length * stride for length, stride in zip(lengths, pool.strides, strict=True)]
    whole = whole.reshape(shape[0], *sizes, shape[-1])
    begins = [0, *(before for before, _ in pool.padding), 0]
    ends = [first + size for first, size in zip(begins, shape, strict=True)]
    return lax.slice(whole, begins, ends)


@lowering("ai.onnx", "MaxPool")
def max_pool(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Maximum of each window; padding never wins.

    A window without an element above it gives the lowest finite number. The elements of a window
    are compared in order, and the one behind a NaN replaces it: NaN stays where it is the last. Of
    a window of more than 27 elements XLA chooses the order.
    """
    x = jnp.asarray(inputs[0])
    dilations = integers(attributes, "dilations") or [1]
    if attributes.get("storage_order", 0) or set(dilations) != {1} or context.num_outputs > 1:
        raise LoweringError(
            f"{where_in_program(context)}: max pooling has no indices output, no dilations and "
            f"storage_order 0 only; got {context.num_outputs} outputs, dilations {dilations} "
            f"and storage_order {attributes.get('storage_order', 0)}."
        )
    pool = _pool(context, x, attributes)
    return context.images.first(_window_max(context.images.last(x), pool))


@lowering("ai.onnx", "AveragePool")
def average_pool(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Mean of each window over the elements inside the tensor.

    With ``count_include_pad`` the elements of ``pads`` count as zeros; those that ``ceil_mode``
    adds never count.
    """
    x = jnp.asarray(inputs[0])
    pool = _pool(context, x, attributes)
    padding = [(0, 0), (0, 0), *pool.padding]
    window, strides = (1, 1, *pool.kernel), (1, 1, *pool.strides)
    total = lax.reduce_window(x, np.zeros((), x.dtype), lax.add, window, strides, padding)
    include = bool(attributes.get("count_include_pad", 0))
    declared = explicit_padding(context, attributes, x.shape[2:], pool.kernel, pool.strides)
    # Not one constant, which would be as large as the result.
    count = jnp.ones((), x.dtype)
    for axis, out_size in enumerate(total.shape[2:]):
        size, (before, after) = x.shape[2 + axis], declared[axis]
        starts = np.arange(out_size) * pool.strides[axis] - before
        low, high = (-before, size + after) if include else (0, size)
        inside = np.minimum(starts + pool.kernel[axis], high) - np.maximum(starts, low)
        count = count[..., None] * jnp.asarray(inside.astype(x.dtype))
    mean: jax.Array = total / count
    return mean


@lowering("ai.onnx", "GlobalAveragePool")
def global_average_pool(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """Mean over the spatial axes, which stay with size 1."""
    x = jnp.asarray(inputs[0])
    if context.training or not is_floating(x) or not x.size:
        return jnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)
    images = context.images.last(x)
    if channel_sums.has_kernel(images, sites=images.shape[0]):
        means, _ = jax.vmap(channel_sums.moments)(images)
        return means.reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    # As a product, since XLA joins a sum with the convolutions before it, which are slower then.
    batch, channels, *sizes = x.shape
    rows = x.reshape(batch, channels, -1).swapaxes(1, 2)
    total = lax.batch_matmul(jnp.ones((batch, 1, rows.shape[1]), x.dtype), rows)
    return (total / rows.shape[1]).reshape(batch, channels, *[1] * len(sizes))


@lowering("ai.onnx", "GlobalMaxPool")
def global_max_pool(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Maximum over the spatial axes, which stay with size 1."""
    x = jnp.asarray(inputs[0])
    spatial = x.ndim - 2
    pool = _Pool(x.shape[2:], (1,) * spatial, ((0, 0),) * spatial)
    return context.images.first(_window_max(context.images.last(x), pool))
