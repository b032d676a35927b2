"""A product by constant weights with its bias, what is added and its activation, by oneDNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext


def convolution(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """x [N, C, H, W] with packed weights; a bias of M elements and an addend, or None."""
    spec = library.Spec(*attributes["spec"])
    x, weights, bias, addend = inputs
    out = library.convolved(
        spec,
        jnp.asarray(x).transpose(0, 2, 3, 1),
        weights,
        None if bias is None else jnp.reshape(bias, -1),
        None if addend is None else jnp.asarray(addend).transpose(0, 2, 3, 1),
    )
    return out.transpose(0, 3, 1, 2)


def product(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """x [..., K] with packed weights; a bias of N elements and an addend, or None."""
    spec = library.Spec(*attributes["spec"])
    x, weights, bias, addend = inputs
    out = library.convolved(
        spec,
        jnp.reshape(x, (spec.images, spec.height, spec.width, spec.channels)),
        weights,
        None if bias is None else jnp.reshape(bias, -1),
        None if addend is None else jnp.reshape(addend, spec.shape),
    )
    return out.reshape(*jnp.shape(x)[:-1], spec.results)
