"""Lowerings of normalisation: batch, group and instance; statistics are taken in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import where_in_program
from paddle_ipu.xla.registry import Attributes, LoweringContext, lowering


def _statistics(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """(deviations from the mean, mean, population variance); the last two keep their axes."""
    mean = jnp.mean(x, axis=axes, keepdims=True)
    deviations = x - mean
    return deviations, mean, jnp.mean(lax.square(deviations), axis=axes, keepdims=True)


def _per_channel(vector: Any, rank: int) -> Any:
    """A vector [C] shaped to broadcast against [N, C, ...]."""
    return jnp.reshape(vector, (1, -1) + (1,) * (rank - 2))


@lowering("ai.graphcore", "GroupNormalization")
def group_normalization(
    context: LoweringContext, inputs: Sequence[Any], attributes: Attributes
) -> Any:
    """Normalises x [N, C, ...] over each of ``num_groups`` groups of channels.

    Returns (y, mean [N * groups], 1 / standard deviation [N * groups]), as PopART.
    """
    x, scale, bias = (jnp.asarray(value) for value in inputs)
    groups, epsilon = int(attributes["num_groups"]), float(attributes.get("epsilon", 1e-5))
    if x.shape[1] % groups:
        raise LoweringError(
            f"{where_in_program(context)}: {x.shape[1]} channels do not divide into {groups} "
            "groups; num_groups must be a divisor of axis 1."
        )
    wide = x.astype(jnp.float32)
    # One group of a matrix is layer normalisation; it needs no reshape.
    grouped = wide if x.ndim == 2 and groups == 1 else wide.reshape(x.shape[0] * groups, -1)
    deviations, mean, variance = _statistics(grouped, (1,))
    inverse = lax.rsqrt(variance + epsilon)
    normal = (deviations * inverse).reshape(x.shape)
    y = normal * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)
    return y.astype(x.dtype), mean.reshape(-1), inverse.reshape(-1)
