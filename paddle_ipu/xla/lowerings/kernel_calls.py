"""Operators that call a kernel of ``xla/kernels``, as rewrites of inference programs make them.

They are of the domain :data:`~paddle_ipu.xla.lowerings.registry.REWRITTEN`, which no model has.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.attention import AttentionSpec, attended
from paddle_ipu.xla.kernels.concatenation import joined
from paddle_ipu.xla.lowerings.arrays import Inputs, optional_input
from paddle_ipu.xla.lowerings.registry import REWRITTEN, Attributes, LoweringContext, lowering


@lowering(REWRITTEN, "Conv")
def convolution(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """x [N, C, H, W] with packed weights; a bias of M elements and an addend, or None."""
    spec = library.Spec(*attributes["spec"])
    x, weights = (jnp.asarray(value) for value in inputs[:2])
    bias, addend = optional_input(inputs, 2), optional_input(inputs, 3)
    images = context.images
    out = library.convolved(
        spec,
        images.last(x),
        weights,
        None if bias is None else jnp.reshape(bias, -1),
        None if addend is None else images.last(jnp.asarray(addend)),
    )
    return images.first(out)


@lowering(REWRITTEN, "MatMul")
def product(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """x [..., K] with packed weights; a bias of N elements and an addend, or None."""
    spec = library.Spec(*attributes["spec"])
    x, weights = (jnp.asarray(value) for value in inputs[:2])
    bias, addend = optional_input(inputs, 2), optional_input(inputs, 3)
    out = library.convolved(
        spec,
        jnp.reshape(x, (spec.images, spec.height, spec.width, spec.channels)),
        weights,
        None if bias is None else jnp.reshape(bias, -1),
        None if addend is None else jnp.reshape(addend, spec.shape),
    )
    return out.reshape(*x.shape[:-1], spec.results)


@lowering(REWRITTEN, "Attention")
def attention(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Attention of Q, K, V and a mask or None, whose strides the attribute ``spec`` has.

    The result has the attribute ``shape``.
    """
    spec: AttentionSpec = attributes["spec"]
    query, key, value = (jnp.asarray(array) for array in inputs[:3])
    mask = optional_input(inputs, 3)
    return attended(spec, query, key, value, mask, attributes["shape"])


@lowering(REWRITTEN, "Concat")
def concatenation(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensors, of one dtype, joined along ``axis``, which is from 0."""
    return joined([jnp.asarray(array) for array in inputs], int(attributes["axis"]))
