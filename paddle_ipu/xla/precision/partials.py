"""Half partials: matrix products and convolutions whose sums are kept in float16.

An IPU's multiply-accumulate unit takes 16 products at a time when partial sums are half. So here:
the terms of a sum are cut, in order, into blocks of :data:`BLOCK`; a block's products and their sum
are float32, and each block is added to the running sum, which is rounded to float16 (to the
nearest, ties to even). In a matrix product the terms are in the order of the contracted axis; in a
convolution in that of the kernel's positions and, for each, of the input channels. A gradient is a
product or a convolution too and is summed likewise: that of a convolution's weights over samples
and output positions.

A sum of n terms of about the same size thus has a relative error of up to n / 16 half roundings of
2**-11, and stops growing where a block is below half a place of it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.precision import half

BLOCK = 16
"""Products that are added up in float32 before the sum is rounded."""


def summed_product(x: Any, y: Any) -> Any:
    """``x [..., M, K] @ y [..., K, N]``, leading axes broadcast, without a derivative."""
    count = x.shape[-1]
    blocks = -(-count // BLOCK)
    rest = blocks * BLOCK - count
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, rest)])
    y = jnp.pad(y, [(0, 0)] * (y.ndim - 2) + [(0, rest), (0, 0)])
    x = jnp.moveaxis(x.reshape(*x.shape[:-1], blocks, BLOCK), -2, 0)
    y = jnp.moveaxis(y.reshape(*y.shape[:-2], blocks, BLOCK, y.shape[-1]), -3, 0)

    def add(total: Any, block: tuple[Any, Any]) -> tuple[Any, None]:
        return half.to_float16(total + jnp.matmul(*block)), None

    shape = jax.eval_shape(jnp.matmul, x[0], y[0]).shape
    return lax.scan(add, jnp.zeros(shape, jnp.float32), (x, y))[0]


def _summed_to(array: Any, shape: Sequence[int]) -> Any:
    """The gradient of a broadcast to the array's shape."""
    extra = array.ndim - len(shape)
    axes = [*range(extra), *(extra + i for i, n in enumerate(shape) if n != array.shape[extra + i])]
    return jnp.sum(array, axis=tuple(axes)).reshape(shape) if axes else array


@jax.custom_vjp
def matmul(x: Any, y: Any) -> Any:
    """NumPy's matmul of arrays of two axes or more, summed in float16 as are its gradients."""
    return summed_product(x, y)


def _matmul_backward(factors: tuple[Any, Any], gradient: Any) -> tuple[Any, Any]:
    x, y = factors
    of_x = summed_product(gradient, jnp.swapaxes(y, -1, -2))
    if y.ndim == 2:
        # The weights of a layer: one sum over all rows, whatever axes they are in.
        rows = x.reshape(-1, x.shape[-1])
        of_y = summed_product(rows.T, gradient.reshape(-1, gradient.shape[-1]))
    else:
        of_y = summed_product(jnp.swapaxes(x, -1, -2), gradient)
    return _summed_to(of_x, x.shape), _summed_to(of_y, y.shape)


matmul.defvjp(lambda x, y: (summed_product(x, y), (x, y)), _matmul_backward)

_Pairs = tuple[tuple[int, int], ...]
_Ints = tuple[int, ...]


def _patches(
    x: Any,
    kernel: _Ints,
    strides: _Ints,
    padding: _Pairs,
    spread: _Ints,
    dilation: _Ints,
    group: int,
) -> Any:
    """What each output position reads: [group, N * positions, kernel positions * channels]."""
    axes = tuple(range(x.ndim))
    found = lax.conv_general_dilated_patches(
        x,
        kernel,
        strides,
        padding,
        lhs_dilation=spread,
        rhs_dilation=dilation,
        dimension_numbers=lax.ConvDimensionNumbers(axes, axes, axes),
        precision=lax.Precision.HIGHEST,
    )
    samples, channels = x.shape[:2]
    found = found.reshape(samples, group, channels // group, -1, found[0, 0].size)
    found = found.transpose(1, 0, 4, 3, 2)
    return found.reshape(group, samples * found.shape[2], -1)


def _convolved(
    x: Any,
    weights: Any,
    strides: _Ints,
    padding: _Pairs,
    spread: _Ints,
    dilation: _Ints,
    group: int,
) -> Any:
    shape = jax.eval_shape(
        lambda x, weights: lax.conv_general_dilated(
            x, weights, strides, padding, spread, dilation, feature_group_count=group
        ),
        x,
        weights,
    ).shape
    rows = _patches(x, weights.shape[2:], strides, padding, spread, dilation, group)
    kernels = weights.reshape(group, weights.shape[0] // group, weights.shape[1], -1)
    kernels = kernels.transpose(0, 3, 2, 1).reshape(group, rows.shape[-1], -1)
    out = summed_product(rows, kernels)
    out = out.reshape(group, shape[0], -1, out.shape[-1]).transpose(1, 0, 3, 2)
    return out.reshape(shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5, 6))
def convolution(
    x: Any,
    weights: Any,
    strides: _Ints,
    padding: _Pairs,
    spread: _Ints,
    dilation: _Ints,
    group: int,
) -> Any:
    """Cross-correlation of x [N, C, ...] with weights [M, C / group, ...], summed in float16.

    Args:
        x: the data.
        weights: the kernels.
        strides: of the windows, by spatial axis.
        padding: (before, after) by spatial axis.
        spread: distance of the data's elements from each other; 1 has no zeros between them.
        dilation: likewise of the kernels' elements.
        group: how many groups the channels are in.
    """
    return _convolved(x, weights, strides, padding, spread, dilation, group)


def _convolution_backward(
    strides: _Ints,
    padding: _Pairs,
    spread: _Ints,
    dilation: _Ints,
    group: int,
    factors: tuple[Any, Any],
    gradient: Any,
) -> tuple[Any, Any]:
    x, weights = factors
    kernel, sizes = weights.shape[2:], x.shape[2:]
    # The data's gradient is a convolution of the result's with the kernels turned round.
    turned = weights.reshape(group, -1, *weights.shape[1:]).swapaxes(1, 2)
    turned = turned.reshape(x.shape[1], -1, *kernel)
    turned = jnp.flip(turned, axis=tuple(range(2, x.ndim)))
    back = []
    for axis, (before, _) in enumerate(padding):
        reach = (kernel[axis] - 1) * dilation[axis]
        wanted = (sizes[axis] - 1) * spread[axis] + 1
        have = (gradient.shape[2 + axis] - 1) * strides[axis] + 1
        back.append((reach - before, wanted - have + before))
    of_x = _convolved(gradient, turned, spread, tuple(back), strides, dilation, group)
    # The kernels' is a sum over all that each of their elements was multiplied with.
    rows = _patches(x, kernel, strides, padding, spread, dilation, group)
    samples, channels = gradient.shape[:2]
    parts = gradient.reshape(samples, group, channels // group, -1).transpose(1, 0, 3, 2)
    parts = parts.reshape(group, -1, channels // group)
    of_weights = summed_product(jnp.swapaxes(rows, 1, 2), parts)
    of_weights = of_weights.reshape(group, -1, weights.shape[1], channels // group)
    return of_x, of_weights.transpose(0, 3, 2, 1).reshape(weights.shape)


def _convolution_forward(
    x: Any,
    weights: Any,
    strides: _Ints,
    padding: _Pairs,
    spread: _Ints,
    dilation: _Ints,
    group: int,
) -> tuple[Any, tuple[Any, Any]]:
    return _convolved(x, weights, strides, padding, spread, dilation, group), (x, weights)


convolution.defvjp(_convolution_forward, _convolution_backward)
