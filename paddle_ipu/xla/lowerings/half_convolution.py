"""Convolutions whose partial sums are float16, as ``precision/partials.py`` has them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Pair
from paddle_ipu.xla.lowerings.channels_last import Geometry, gradient_paddings
from paddle_ipu.xla.precision.partials import summed_product


def _patches(x: jax.Array, kernel: Sequence[int], geometry: Geometry) -> jax.Array:
    """What each output position reads: [groups, N * positions, kernel positions * channels]."""
    axes = tuple(range(x.ndim))
    patches = lax.conv_general_dilated_patches(
        x,
        kernel,
        geometry.strides,
        geometry.padding,
        lhs_dilation=geometry.data_dilation,
        rhs_dilation=geometry.kernel_dilation,
        dimension_numbers=lax.ConvDimensionNumbers(axes, axes, axes),
        precision=lax.Precision.HIGHEST,
    )
    samples, channels = x.shape[:2]
    groups = geometry.groups
    patches = patches.reshape(samples, groups, channels // groups, -1, patches[0, 0].size)
    patches = patches.transpose(1, 0, 4, 3, 2)
    return patches.reshape(groups, samples * patches.shape[2], -1)


def _forward_product(x: jax.Array, weights: jax.Array, geometry: Geometry) -> jax.Array:
    """The convolution as a product of patches and kernels, without a derivative."""
    groups = geometry.groups
    shape = jax.eval_shape(
        lambda x, weights: lax.conv_general_dilated(
            x, weights, *geometry[:4], feature_group_count=groups
        ),
        x,
        weights,
    ).shape
    rows = _patches(x, weights.shape[2:], geometry)
    kernels = weights.reshape(groups, weights.shape[0] // groups, weights.shape[1], -1)
    kernels = kernels.transpose(0, 3, 2, 1).reshape(groups, rows.shape[-1], -1)
    out = summed_product(rows, kernels)
    out = out.reshape(groups, shape[0], -1, out.shape[-1]).transpose(1, 0, 3, 2)
    return out.reshape(shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolution(x: jax.Array, weights: jax.Array, geometry: Geometry) -> jax.Array:
    """Cross-correlation of x [N, C, ...] with weights [M, C / groups, ...], summed in float16."""
    return _forward_product(x, weights, geometry)


def _forward(x: jax.Array, weights: jax.Array, geometry: Geometry) -> tuple[jax.Array, Pair]:
    return _forward_product(x, weights, geometry), (x, weights)


def _backward(geometry: Geometry, operands: Pair, gradient: jax.Array) -> Pair:
    x, weights = operands
    kernel, groups = weights.shape[2:], geometry.groups
    # The data's gradient is a convolution of the result's with the flipped kernels.
    flipped = weights.reshape(groups, -1, *weights.shape[1:]).swapaxes(1, 2)
    flipped = flipped.reshape(x.shape[1], -1, *kernel)
    flipped = jnp.flip(flipped, axis=tuple(range(2, x.ndim)))
    for_x = Geometry(
        geometry.data_dilation,
        gradient_paddings(x, weights, gradient, geometry)[0],
        geometry.strides,
        geometry.kernel_dilation,
        groups,
    )
    of_x = _forward_product(gradient, flipped, for_x)
    # A kernel element's gradient is the sum over all that it was multiplied with.
    rows = _patches(x, kernel, geometry)
    samples, channels = gradient.shape[:2]
    parts = gradient.reshape(samples, groups, channels // groups, -1).transpose(1, 0, 3, 2)
    parts = parts.reshape(groups, -1, channels // groups)
    of_weights = summed_product(rows, parts, x_turned=True)
    of_weights = of_weights.reshape(groups, -1, weights.shape[1], channels // groups)
    return of_x, of_weights.transpose(0, 3, 2, 1).reshape(weights.shape)


convolution.defvjp(_forward, _backward)
