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
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.precision import half

Pair = tuple[jax.Array, jax.Array]

BLOCK = 16
"""Products whose float32 sum is added to the running sum before that is rounded."""


def summed_product(x: jax.Array, y: jax.Array) -> jax.Array:
    """``x [..., M, K] @ y [..., K, N]`` in float32, leading axes broadcast, without a derivative.

    K is padded with zeros to whole blocks; a scan adds one block after the other.
    """
    count = x.shape[-1]
    blocks = -(-count // BLOCK)
    rest = blocks * BLOCK - count
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, rest)])
    y = jnp.pad(y, [(0, 0)] * (y.ndim - 2) + [(0, rest), (0, 0)])
    x = jnp.moveaxis(x.reshape(*x.shape[:-1], blocks, BLOCK), -2, 0)
    y = jnp.moveaxis(y.reshape(*y.shape[:-2], blocks, BLOCK, y.shape[-1]), -3, 0)

    def add(total: jax.Array, block: Pair) -> tuple[jax.Array, None]:
        return half.to_float16(total + jnp.matmul(*block)), None

    shape = jax.eval_shape(jnp.matmul, x[0], y[0]).shape
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
    of_x = summed_product(gradient, jnp.swapaxes(y, -1, -2))
    if y.ndim == 2:
        # The weights of a layer: one sum over all rows, whatever axes they are in.
        rows = x.reshape(-1, x.shape[-1])
        of_y = summed_product(rows.T, gradient.reshape(-1, gradient.shape[-1]))
    else:
        of_y = summed_product(jnp.swapaxes(x, -1, -2), gradient)
    return _summed_to(of_x, x.shape), _summed_to(of_y, y.shape)


matmul.defvjp(lambda x, y: (summed_product(x, y), (x, y)), _matmul_backward)
