"""Half partials: matrix products and convolutions whose sums are kept in float16.

An IPU's multiply-accumulate unit takes 16 products at a time when partial sums are half. So here:
the terms of a sum are cut, in order, into blocks of :data:`BLOCK`; a block's products and their sum
are float32, and each block is added to the running sum, which is rounded to float16 (to the
nearest, ties to even). In a matrix product the terms are in the order of the contracted axis; in a
convolution (``lowerings/half_convolution.py``) in that of the kernel's positions and, for each, of
the input channels. A gradient is a product or a convolution too and is summed likewise: that of a
convolution's weights over samples and output positions.

A sum of n terms of about the same size thus has a relative error of up to n / 16 half roundings of
2**-11, and stops growing where a block is below half a place of it.

The compiled kernel of ``simd/half_product.inc`` sums so; where it is not there, XLA does.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.kernels import half_product
from paddle_ipu.xla.precision import half

Pair = tuple[jax.Array, jax.Array]

BLOCK = 16
"""Products whose float32 sum is added to the running sum before that is rounded."""


def summed_product(
    x: jax.Array, y: jax.Array, x_turned: bool = False, y_turned: bool = False
) -> jax.Array:
    """``X [..., M, K] @ Y [..., K, N]`` in float32, leading axes broadcast, without a derivative.

    Args:
        x: float32, X, or with `x_turned` its transpose [..., K, M].
        y: float32, Y, or with `y_turned` its transpose [..., N, K].
        x_turned: see `x`.
        y_turned: see `y`.
    """
    if half_product.has_kernel() and 0 not in (*x.shape, *y.shape):
        return _by_kernel(x, y, x_turned, y_turned)
    x = jnp.swapaxes(x, -1, -2) if x_turned else x
    return summed_by_scan(x, jnp.swapaxes(y, -1, -2) if y_turned else y)


def _by_kernel(x: jax.Array, y: jax.Array, x_turned: bool, y_turned: bool) -> jax.Array:
    """A product by the compiled kernel; matrices that all share one Y are one of more rows."""
    leading = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if y.ndim == 2 and not x_turned:
        x = x.reshape(-1, x.shape[-1])
    elif leading:
        x = jnp.broadcast_to(x, (*leading, *x.shape[-2:]))
        y = jnp.broadcast_to(y, (*leading, *y.shape[-2:]))
    x, y = (array.reshape(-1, *array.shape[-2:]) for array in (x, y))
    result = half_product.multiplied(x, y, x_turned, y_turned)
    return result.reshape(*leading, -1, result.shape[-1])


def summed_by_scan(x: jax.Array, y: jax.Array) -> jax.Array:
    """A product by XLA: K is padded with zeros to whole blocks; a scan adds one after the other."""
    count, shape = x.shape[-1], jax.eval_shape(jnp.matmul, x, y).shape
    blocks = -(-count // BLOCK)
    rest = blocks * BLOCK - count
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, rest)])
    y = jnp.pad(y, [(0, 0)] * (y.ndim - 2) + [(0, rest), (0, 0)])
    x = jnp.moveaxis(x.reshape(*x.shape[:-1], blocks, BLOCK), -2, 0)
    y = jnp.moveaxis(y.reshape(*y.shape[:-2], blocks, BLOCK, y.shape[-1]), -3, 0)

    def add(total: jax.Array, block: Pair) -> tuple[jax.Array, None]:
        return half.to_float16(total + jnp.matmul(*block)), None

    return lax.scan(add, jnp.zeros(shape, jnp.float32), (x, y))[0]


def _summed_to(array: jax.Array, shape: Sequence[int]) -> jax.Array:
    """The gradient of a broadcast to the array's shape."""
    extra = array.ndim - len(shape)
    axes = [*range(extra), *(extra + i for i, n in enumerate(shape) if n != array.shape[extra + i])]
    return jnp.sum(array, axis=tuple(axes)).reshape(shape) if axes else array


@jax.custom_vjp
def matmul(x: jax.Array, y: jax.Array) -> jax.Array:
    """NumPy's matmul of arrays of two axes or more, summed in float16 as are its gradients."""
    return summed_product(x, y)


def _matmul_backward(operands: Pair, gradient: jax.Array) -> Pair:
    x, y = operands
    of_x = summed_product(gradient, y, y_turned=True)
    if y.ndim == 2:
        # The weights of a layer: one sum over all rows, whatever axes they are in.
        rows, gradients = (array.reshape(-1, array.shape[-1]) for array in (x, gradient))
        of_y = summed_product(rows, gradients, x_turned=True)
    else:
        of_y = summed_product(x, gradient, x_turned=True)
    return _summed_to(of_x, x.shape), _summed_to(of_y, y.shape)


matmul.defvjp(lambda x, y: (summed_product(x, y), (x, y)), _matmul_backward)
