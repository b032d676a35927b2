"""Convolution in the one layout that XLA's fast kernels on CPUs take, gradients included.

XLA turns other layouts into this one, but not inside a loop: there a convolution of channels-first
tensors is ten to twenty times slower, and accumulation, batches per step and replicas are loops.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

_Ints = tuple[int, ...]
_Pairs = tuple[tuple[int, int], ...]


def _convolved(
    x: Any, weights: Any, strides: _Ints, padding: _Pairs, spread: _Ints, dilation: _Ints
) -> Any:
    spatial = tuple(range(2, x.ndim))
    # Where batch, channels and space are among the axes of data, out, in and space among kernels'.
    data = (0, x.ndim - 1, *range(1, x.ndim - 1))
    kernels = (x.ndim - 1, x.ndim - 2, *range(x.ndim - 2))
    out = lax.conv_general_dilated(
        x.transpose(0, *spatial, 1),
        weights.transpose(*spatial, 1, 0),
        strides,
        padding,
        spread,
        dilation,
        dimension_numbers=lax.ConvDimensionNumbers(data, kernels, data),
    )
    return out.transpose(data)


def inferred(
    x: Any, weights: Any, strides: _Ints, padding: _Pairs, spread: _Ints, dilation: _Ints
) -> Any:
    """:func:`convolution` without a gradient of its own: as a matrix product where that is faster.

    That is so for kernels of one element, and where the windows of x, written out, are much smaller
    than the kernels, which XLA's convolutions rearrange at each run.
    """
    kernel, channels = weights.shape[2:], weights.shape[0]
    sizes = _places(x.shape[2:], kernel, strides, padding, dilation)
    rows = x.shape[0] * math.prod(sizes)
    is_product = rows > 0 and (math.prod(kernel) == 1 or 4 * rows <= channels)
    if set(spread) != {1} or not is_product:
        return _convolved(x, weights, strides, padding, spread, dilation)
    found = windows(x, kernel, strides, padding, 0.0, dilation)
    spatial = tuple(range(2, x.ndim))
    matrix = weights.transpose(*spatial, 1, 0).reshape(-1, channels)
    out = jnp.concatenate(found, axis=-1).reshape(rows, -1) @ matrix
    return channels_first(out.reshape(x.shape[0], *sizes, channels))


def windows(
    x: Any,
    window: _Ints,
    strides: _Ints,
    padding: _Pairs,
    fill: float,
    dilation: _Ints | None = None,
) -> list[Any]:
    """For each element of a window, what all windows of x [N, C, ...] have there: [N, ..., C].

    Args:
        x: the data.
        window: its size, by spatial axis.
        strides: of the windows, by spatial axis.
        padding: (before, after) by spatial axis.
        fill: what stands around the data.
        dilation: distance of a window's elements from each other; 1 where it is not given.
    """
    dilation = dilation or (1,) * len(window)
    sizes = _places(x.shape[2:], window, strides, padding, dilation)
    around = ((0, 0, 0), *((before, after, 0) for before, after in padding), (0, 0, 0))
    data = lax.pad(x.transpose(0, *range(2, x.ndim), 1), jnp.asarray(fill, x.dtype), around)
    found = []
    for place in itertools.product(*map(range, window)):
        first = [at * gap for at, gap in zip(place, dilation, strict=True)]
        last = [
            start + stride * (size - 1) + 1
            for start, stride, size in zip(first, strides, sizes, strict=True)
        ]
        ends = (x.shape[0], *last, x.shape[1])
        found.append(lax.slice(data, (0, *first, 0), ends, (1, *strides, 1)))
    return found


def channels_first(x: Any) -> Any:
    """[N, ..., C] as [N, C, ...]."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


def _places(
    data: _Ints, window: _Ints, strides: _Ints, padding: _Pairs, dilation: _Ints
) -> list[int]:
    """How many windows there are, by spatial axis."""
    return [
        (size + sum(pads) - (reach - 1) * gap - 1) // stride + 1
        for size, reach, stride, pads, gap in zip(
            data, window, strides, padding, dilation, strict=True
        )
    ]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def convolution(
    x: Any, weights: Any, strides: _Ints, padding: _Pairs, spread: _Ints, dilation: _Ints
) -> Any:
    """Cross-correlation of x [N, C, ...] with weights [M, C, ...]: [N, M, ...].

    Args:
        x: the data.
        weights: the kernels.
        strides: of the windows, by spatial axis.
        padding: (before, after) by spatial axis.
        spread: distance of the data's elements from each other; 1 has no zeros between them.
        dilation: likewise of the kernels' elements.
    """
    return _convolved(x, weights, strides, padding, spread, dilation)


def _forward(
    x: Any, weights: Any, strides: _Ints, padding: _Pairs, spread: _Ints, dilation: _Ints
) -> tuple[Any, tuple[Any, Any]]:
    return _convolved(x, weights, strides, padding, spread, dilation), (x, weights)


def _backward(
    strides: _Ints,
    padding: _Pairs,
    spread: _Ints,
    dilation: _Ints,
    factors: tuple[Any, Any],
    gradient: Any,
) -> tuple[Any, Any]:
    x, weights = factors
    around_gradient, around_x = [], []
    for axis, (before, _) in enumerate(padding):
        data = (x.shape[2 + axis] - 1) * spread[axis] + 1
        windows = (gradient.shape[2 + axis] - 1) * strides[axis] + 1
        reach = (weights.shape[2 + axis] - 1) * dilation[axis]
        around_gradient.append((reach - before, data - windows + before))
        around_x.append((before, reach + windows - data - before))
    # The data's gradient is a convolution of the result's with the kernels turned round, the
    # kernels' one of the data with the result's gradient, over samples instead of channels.
    turned = jnp.flip(weights, axis=tuple(range(2, x.ndim))).swapaxes(0, 1)
    of_x = _convolved(gradient, turned, spread, tuple(around_gradient), strides, dilation)
    of_weights = _convolved(
        x.swapaxes(0, 1), gradient.swapaxes(0, 1), dilation, tuple(around_x), spread, strides
    )
    return of_x, of_weights.swapaxes(0, 1)


convolution.defvjp(_forward, _backward)
