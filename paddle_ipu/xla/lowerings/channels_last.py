"""Convolutions and windows in channels-last layout, gradients included.

XLA's CPU backend has fast convolutions for [N, ..., C] data with [..., C, M] kernels only. It
transposes other layouts into this one, but not inside a loop: there a channels-first convolution is
ten to twenty times slower, and accumulation, batches per step and replicas are loops.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings import image_layouts
from paddle_ipu.xla.lowerings.arrays import Pair

Ints = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]
"""(before, after) of each spatial axis; a negative number crops."""


class Geometry(NamedTuple):
    """A convolution's numbers, one entry for each spatial axis.

    Attributes:
        strides: of the window.
        padding: zeros around the dilated data.
        data_dilation: distance of neighbouring data elements; the gaps between them are zeros.
        kernel_dilation: distance of neighbouring kernel elements.
        groups: how many groups the channels are in.
    """

    strides: Ints
    padding: Padding
    data_dilation: Ints
    kernel_dilation: Ints
    groups: int = 1


def _convolution_op(x: jax.Array, weights: jax.Array, geometry: Geometry) -> jax.Array:
    """XLA's operator on transposed operands; its derivative would not keep the layout."""
    spatial = tuple(range(2, x.ndim))
    axes = zip(weights.shape[2:], *geometry[:4], strict=True)
    cuts = [int(_taken_for_groups(*axis)) for axis in axes]
    padding = tuple(
        (before + cut * stride, after + cut * stride)
        for (before, after), cut, stride in zip(
            geometry.padding, cuts, geometry.strides, strict=True
        )
    )
    # Positions of (batch, channels, space) in the data, and of (M, C, space) in the kernels.
    data = (0, x.ndim - 1, *range(1, x.ndim - 1))
    kernels = (x.ndim - 1, x.ndim - 2, *range(x.ndim - 2))
    out = lax.conv_general_dilated(
        x.transpose(0, *spatial, 1),
        weights.transpose(*spatial, 1, 0),
        geometry.strides,
        padding,
        geometry.data_dilation,
        geometry.kernel_dilation,
        dimension_numbers=lax.ConvDimensionNumbers(data, kernels, data),
    )
    ends = [size - cut for size, cut in zip(out.shape[1:-1], cuts, strict=True)]
    inner = lax.slice(out, (0, *cuts, 0), (out.shape[0], *ends, out.shape[-1]))
    return inner.transpose(data)


def _taken_for_groups(
    size: int, stride: int, padding: tuple[int, int], data_dilation: int, kernel_dilation: int
) -> bool:
    """Whether XLA's simplifier takes an axis for one of groups where it exchanges the operands.

    Of an axis that is none its convolution contradicts itself, and it ends the process
    (``SwapConvOperands`` of jaxlib 0.10.2). Padding that is cut off again prevents it.
    """
    return (
        padding == (0, 0)
        and kernel_dilation == 1
        and data_dilation == size > 1
        and stride == size - 1
    )


def inference_convolution(x: jax.Array, weights: jax.Array, geometry: Geometry) -> jax.Array:
    """:func:`convolution` without a gradient rule: a matrix product (im2col) where that is faster.

    That is so for kernels of one element, and where the windows of x, written out, are much smaller
    than the kernels, which XLA's convolutions rearrange at each run.
    """
    kernel, channels = weights.shape[2:], weights.shape[0]
    sizes = output_sizes(x.shape[2:], kernel, geometry)
    rows = x.shape[0] * math.prod(sizes)
    is_product = rows > 0 and (math.prod(kernel) == 1 or 4 * rows <= channels)
    if set(geometry.data_dilation) != {1} or not is_product:
        return _convolution_op(x, weights, geometry)
    slices = window_slices(image_layouts.last(x), kernel, geometry, 0.0)
    matrix = weights.transpose(*range(2, x.ndim), 1, 0).reshape(-1, channels)
    out = jnp.concatenate(slices, axis=-1).reshape(rows, -1) @ matrix
    return image_layouts.first(out.reshape(x.shape[0], *sizes, channels))


def window_slices(
    x: jax.Array, window: Sequence[int], geometry: Geometry, fill: float | jax.Array
) -> list[jax.Array]:
    """For each element of a window, its values in all windows of x [N, ..., C], in that layout.

    Args:
        x: the data; ``geometry.data_dilation`` must be 1.
        window: its size, by spatial axis.
        geometry: where the windows are.
        fill: the padding's value.
    """
    sizes = output_sizes(x.shape[1:-1], window, geometry)
    around = ((0, 0, 0), *((before, after, 0) for before, after in geometry.padding), (0, 0, 0))
    data = lax.pad(x, jnp.asarray(fill, x.dtype), around)
    slices = []
    for element in itertools.product(*map(range, window)):
        first = [at * gap for at, gap in zip(element, geometry.kernel_dilation, strict=True)]
        last = [
            start + stride * (size - 1) + 1
            for start, stride, size in zip(first, geometry.strides, sizes, strict=True)
        ]
        ends = (x.shape[0], *last, x.shape[-1])
        slices.append(lax.slice(data, (0, *first, 0), ends, (1, *geometry.strides, 1)))
    return slices


def output_sizes(data: Sequence[int], window: Sequence[int], geometry: Geometry) -> list[int]:
    """How many windows there are, by spatial axis: none where a window is longer than the data."""
    sizes = []
    for size, reach, stride, pads, data_gap, gap in zip(data, window, *geometry[:4], strict=True):
        whole = max((size - 1) * data_gap + 1, 0) + sum(pads)
        sizes.append(max((whole - (reach - 1) * gap - 1) // stride + 1, 0))
    return sizes


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolution(x: jax.Array, weights: jax.Array, geometry: Geometry) -> jax.Array:
    """Cross-correlation of x [N, C, ...] with weights [M, C, ...], in one group: [N, M, ...]."""
    return _convolution_op(x, weights, geometry)


def _forward(x: jax.Array, weights: jax.Array, geometry: Geometry) -> tuple[jax.Array, Pair]:
    return _convolution_op(x, weights, geometry), (x, weights)


def _backward(geometry: Geometry, operands: Pair, gradient: jax.Array) -> Pair:
    x, weights = operands
    strides, _, data_dilation, kernel_dilation, _ = geometry
    around_gradient, around_x = gradient_paddings(x, weights, gradient, geometry)
    # The data's gradient is a convolution of the result's with the flipped kernels, in which
    # strides and data dilation change places.
    flipped = jnp.flip(weights, axis=tuple(range(2, x.ndim))).swapaxes(0, 1)
    for_x = Geometry(data_dilation, around_gradient, strides, kernel_dilation)
    of_x = _convolution_op(gradient, flipped, for_x)
    # The kernels' gradient is a convolution of the data with the result's gradient, which sums over
    # samples instead of channels; strides and kernel dilation change places.
    for_weights = Geometry(kernel_dilation, around_x, data_dilation, strides)
    of_weights = _convolution_op(x.swapaxes(0, 1), gradient.swapaxes(0, 1), for_weights)
    return of_x, of_weights.swapaxes(0, 1)


convolution.defvjp(_forward, _backward)


def grouped(x: jax.Array, weights: jax.Array, geometry: Geometry) -> jax.Array:
    """:func:`convolution` in any number of groups; weights are [M, C / groups, ...]."""
    if geometry.groups == 1:
        return convolution(x, weights, geometry)
    axes = tuple(range(x.ndim))
    return lax.conv_general_dilated(
        x,
        weights,
        window_strides=geometry.strides,
        padding=geometry.padding,
        lhs_dilation=geometry.data_dilation,
        rhs_dilation=geometry.kernel_dilation,
        feature_group_count=geometry.groups,
        dimension_numbers=lax.ConvDimensionNumbers(axes, axes, axes),
    )


def gradient_paddings(
    x: jax.Array, weights: jax.Array, gradient: jax.Array, geometry: Geometry
) -> tuple[Padding, Padding]:
    """The padding of the result's gradient for that of x, and of x for the kernels' gradient."""
    around_gradient, around_x = [], []
    for axis, (before, _) in enumerate(geometry.padding):
        data = (x.shape[2 + axis] - 1) * geometry.data_dilation[axis] + 1
        windows = (gradient.shape[2 + axis] - 1) * geometry.strides[axis] + 1
        reach = (weights.shape[2 + axis] - 1) * geometry.kernel_dilation[axis]
        around_gradient.append((reach - before, data - windows + before))
        around_x.append((before, reach + windows - data - before))
    return tuple(around_gradient), tuple(around_x)
