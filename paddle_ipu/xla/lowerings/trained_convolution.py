"""Convolutions of training sessions: oneDNN's kernels where there are any, else XLA's.

A convolution is linear in its data and in its weights. So are its gradients, each in what it is
made of, and the derivatives of all three are one another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from paddle_ipu.xla.kernels import library, training
from paddle_ipu.xla.kernels.library import Spec
from paddle_ipu.xla.kernels.training import Direction
from paddle_ipu.xla.lowerings import channels_last
from paddle_ipu.xla.lowerings.arrays import Pair
from paddle_ipu.xla.lowerings.channels_last import Geometry
from paddle_ipu.xla.lowerings.image_layouts import first, last


def spec_of(x: jax.Array, weights: jax.Array, geometry: Geometry) -> Spec | None:
    """A convolution of x [N, H, W, C] as oneDNN is asked for it; None where it is left to XLA.

    Args:
        x: the data.
        weights: [M, C / groups, ...].
        geometry: strides, padding, dilations and groups.
    """
    if x.ndim != 4 or x.dtype != jnp.float32 or weights.dtype != jnp.float32 or not x.size:
        return None
    if set(geometry.data_dilation) != {1} or min(map(min, geometry.padding)) < 0:
        return None
    images, height, width, channels = x.shape
    results, _, kernel_height, kernel_width = weights.shape
    (top, bottom), (left, right) = geometry.padding
    (stride_y, stride_x), (gap_y, gap_x) = geometry.strides, geometry.kernel_dilation
    spec = Spec(
        images, channels, height, width, results, geometry.groups, kernel_height, kernel_width,
        stride_y, stride_x, gap_y, gap_x, top, left, bottom, right, 0, 0, 0, library.threads(),
    )  # fmt: skip
    return spec if training.has_kernel(spec, Direction.FORWARD) else None


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolution(x: jax.Array, weights: jax.Array, spec: Spec) -> jax.Array:
    """Cross-correlation of x [N, H, W, C] with weights [M, C / groups, ...]: [N, H', W', M]."""
    return training.computed(spec, Direction.FORWARD, x, weights)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def data_gradient(gradient: jax.Array, weights: jax.Array, spec: Spec) -> jax.Array:
    """The gradient of x, [N, H, W, C], given that of the result, [N, H', W', M]."""
    if training.has_kernel(spec, Direction.DATA_GRADIENT):
        return training.computed(spec, Direction.DATA_GRADIENT, gradient, weights)
    x = jnp.zeros((spec.images, spec.height, spec.width, spec.channels), gradient.dtype)
    of_x: jax.Array = jax.vjp(lambda x: _by_xla(x, weights, spec), x)[1](gradient)[0]
    return of_x


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def kernel_gradient(x: jax.Array, gradient: jax.Array, spec: Spec) -> jax.Array:
    """The gradient of the weights, [M, C / groups, ...], given that of the result."""
    if training.has_kernel(spec, Direction.KERNEL_GRADIENT):
        return training.computed(spec, Direction.KERNEL_GRADIENT, x, gradient)
    weights = jnp.zeros(spec.weights_shape, x.dtype)
    pull = jax.vjp(lambda weights: _by_xla(x, weights, spec), weights)[1]
    of_weights: jax.Array = pull(gradient)[0]
    return of_weights


def _by_xla(x: jax.Array, weights: jax.Array, spec: Spec) -> jax.Array:
    padding = (spec.top, spec.bottom), (spec.left, spec.right)
    strides, gaps = (spec.stride_y, spec.stride_x), (spec.gap_y, spec.gap_x)
    geometry = Geometry(strides, padding, (1, 1), gaps, spec.groups)
    return last(channels_last.grouped(first(x), weights, geometry))


def _kept(
    function: Callable[[jax.Array, jax.Array, Spec], jax.Array],
) -> Callable[[jax.Array, jax.Array, Spec], tuple[jax.Array, Pair]]:
    """The result of a function, and its operands for backward."""
    return lambda a, b, spec: (function(a, b, spec), (a, b))


def _of_convolution(spec: Spec, operands: Pair, gradient: jax.Array) -> Pair:
    x, weights = operands
    return data_gradient(gradient, weights, spec), kernel_gradient(x, gradient, spec)


def _of_data_gradient(spec: Spec, operands: Pair, incoming: jax.Array) -> Pair:
    gradient, weights = operands
    return convolution(incoming, weights, spec), kernel_gradient(incoming, gradient, spec)


def _of_kernel_gradient(spec: Spec, operands: Pair, incoming: jax.Array) -> Pair:
    x, gradient = operands
    return data_gradient(gradient, incoming, spec), convolution(x, incoming, spec)


convolution.defvjp(_kept(convolution), _of_convolution)
data_gradient.defvjp(_kept(data_gradient), _of_data_gradient)
kernel_gradient.defvjp(_kept(kernel_gradient), _of_kernel_gradient)
