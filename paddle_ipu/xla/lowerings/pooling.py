"""Lowerings of pooling over tensors [N, C, spatial axes]."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings import channels_last
from paddle_ipu.xla.lowerings.arrays import (
    integers,
    is_floating,
    lowest_number,
    where_in_program,
)
from paddle_ipu.xla.lowerings.convolution import Padding, explicit_padding
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

_FEW = 27
"""Elements of a window up to which they are taken one by one."""

_Around = tuple[tuple[int, int], ...]


def _pool_geometry(
    context: LoweringContext, x: Any, attributes: Attributes
) -> tuple[list[int], list[int], Padding]:
    """(kernel, strides, padding) of the spatial axes; with ``ceil_mode`` the padding grows."""
    rank = x.ndim - 2
    kernel = [int(size) for size in attributes["kernel_shape"]]
    strides = integers(attributes, "strides") or [1] * rank
    padding = explicit_padding(context, attributes, x.shape[2:], kernel, strides)
    if attributes.get("ceil_mode", 0) and attributes.get("auto_pad", "NOTSET") == "NOTSET":
        padding = [
            (before, after + -(size + before + after - window) % stride)
            for size, window, stride, (before, after) in zip(
                x.shape[2:], kernel, strides, padding, strict=True
            )
        ]
    return kernel, strides, padding


def _of_two(largest: Any, element: Any) -> Any:
    """The step of Paddle's kernel: of an element after NaN the element counts, NaN of the last."""
    return jnp.where(largest > element, largest, element)


def _or_padding(largest: Any, element: Any) -> Any:
    return jnp.where((largest > element) | (element == -np.inf), largest, element)


def _over_windows(
    x: Any, lowest: Any, step: Any, kernel: Sequence[int], strides: Sequence[int], padding: _Around
) -> Any:
    around = [(0, 0), (0, 0), *padding]
    return lax.reduce_window(x, lowest, step, (1, 1, *kernel), (1, 1, *strides), around)


def _one_by_one(x: Any, kernel: tuple[int, ...], strides: tuple[int, ...], padding: _Around) -> Any:
    """The maximum of each window, whose elements are taken in their order."""
    fill: Any = lowest_number(x)
    step: Any = lax.max
    if is_floating(x):
        padded = any(map(any, padding))
        fill, step = (-np.inf, _or_padding) if padded else (fill, _of_two)
    found = channels_last.windows(x, kernel, strides, padding, fill)
    return channels_last.channels_first(functools.reduce(step, found, lowest_number(x)))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _largest(x: Any, kernel: tuple[int, ...], strides: tuple[int, ...], padding: _Around) -> Any:
    fits = all(
        size + sum(pads) >= reach
        for size, pads, reach in zip(x.shape[2:], padding, kernel, strict=True)
    )
    if math.prod(kernel) <= _FEW and x.size and fits:
        # XLA goes through windows element by element, in no order that it promises, and a
        # convolution's result is turned for it.
        return _one_by_one(x, kernel, strides, padding)
    step = _of_two if is_floating(x) else lax.max
    return _over_windows(x, lowest_number(x), step, kernel, strides, padding)


def _largest_forward(
    x: Any, kernel: tuple[int, ...], strides: tuple[int, ...], padding: _Around
) -> tuple[Any, tuple[Any, Any]]:
    out = _largest(x, kernel, strides, padding)
    return out, (x, out)


def _largest_backward(
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    padding: _Around,
    kept: tuple[Any, Any],
    gradient: Any,
) -> tuple[Any]:
    x, out = kept
    below = np.asarray(-np.inf, x.dtype)
    _, pull = jax.vjp(lambda x: _over_windows(x, below, lax.max, kernel, strides, padding), x)
    # No element is equal to NaN, nor to the lowest number of a window that has no larger one.
    return (pull(jnp.where(out > lowest_number(x), gradient, jnp.zeros_like(gradient)))[0],)


_largest.defvjp(_largest_forward, _largest_backward)


def _window_max(x: Any, kernel: list[int], strides: list[int], padding: Padding) -> Any:
    """Maximum of each window; in training the gradient goes to its first maximum, as in Paddle."""
    return _largest(x, tuple(kernel), tuple(strides), tuple(padding))


@lowering("ai.onnx", "MaxPool")
def max_pool(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Maximum of each window; padding never wins.

    A window without an element above it gives the lowest finite number. The elements of a window
    are taken in turn, and what follows NaN begins anew: NaN stays where it is the last. Of a
    window of more than 27 elements XLA chooses the order.
    """
    x = jnp.asarray(inputs[0])
    dilations = integers(attributes, "dilations") or [1]
    if attributes.get("storage_order", 0) or set(dilations) != {1} or context.num_outputs > 1:
        raise LoweringError(
            f"{where_in_program(context)}: max pooling has no indices output, no dilations and "
            f"storage_order 0 only; got {context.num_outputs} outputs, dilations {dilations} "
            f"and storage_order {attributes.get('storage_order', 0)}."
        )
    return _window_max(x, *_pool_geometry(context, x, attributes))


@lowering("ai.onnx", "AveragePool")
def average_pool(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Mean of each window over the elements inside the tensor.

    With ``count_include_pad`` the elements of ``pads`` count as zeros; those that ``ceil_mode``
    adds never count.
    """
    x = jnp.asarray(inputs[0])
    kernel, strides, padding = _pool_geometry(context, x, attributes)
    total = lax.reduce_window(
        x,
        np.zeros((), x.dtype),
        lax.add,
        (1, 1, *kernel),
        (1, 1, *strides),
        [(0, 0), (0, 0), *padding],
    )
    include = bool(attributes.get("count_include_pad", 0))
    declared = explicit_padding(context, attributes, x.shape[2:], kernel, strides)
    count: Any = np.ones((), x.dtype)
    for axis, out_size in enumerate(total.shape[2:]):
        size, (before, after) = x.shape[2 + axis], declared[axis]
        starts = np.arange(out_size) * strides[axis] - before
        low, high = (-before, size + after) if include else (0, size)
        inside = np.minimum(starts + kernel[axis], high) - np.maximum(starts, low)
        count = count[..., None] * inside.astype(x.dtype)
    return total / count


@lowering("ai.onnx", "GlobalAveragePool")
def global_average_pool(
    context: LoweringContext, inputs: Sequence[Any], attributes: Attributes
) -> Any:
    """Mean over the spatial axes, which stay with size 1."""
    x = jnp.asarray(inputs[0])
    if context.training or not is_floating(x) or not x.size:
        return jnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)
    # As a product, since XLA joins a sum with the convolutions before it, which are slower then.
    batch, channels, *sizes = x.shape
    rows = x.reshape(batch, channels, -1).swapaxes(1, 2)
    total = lax.batch_matmul(jnp.ones((batch, 1, rows.shape[1]), x.dtype), rows)
    return (total / rows.shape[1]).reshape(batch, channels, *[1] * len(sizes))


@lowering("ai.onnx", "GlobalMaxPool")
def global_max_pool(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Maximum over the spatial axes, which stay with size 1."""
    x = jnp.asarray(inputs[0])
    spatial = x.ndim - 2
    return _window_max(x, list(x.shape[2:]), [1] * spatial, [(0, 0)] * spatial)
