"""Lowerings of random operators: each draws from its own key of the current micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import where_in_program
from paddle_ipu.xla.registry import Attributes, LoweringContext, lowering


def _ratio(context: LoweringContext, attributes: Attributes) -> float:
    ratio = float(attributes.get("ratio", 0.5))
    if not 0 <= ratio < 1:
        raise LoweringError(
            f"{where_in_program(context)}: the ratio must be at least 0 and less than 1, "
            f"got {ratio}."
        )
    return ratio


def _keep_mask(context: LoweringContext, shape: tuple[int, ...], ratio: float) -> Any:
    """Bool tensor, true with probability 1 - ratio to within 2^-32."""
    bits = jax.random.bits(context.rng_key(), shape, jnp.uint32)
    return bits >= jnp.uint32(min(round(ratio * 2**32), 2**32 - 1))


def _dropped(x: Any, mask: Any, ratio: float) -> Any:
    return jnp.where(mask, x * (1 / (1 - ratio)), jnp.zeros_like(x))


@lowering("ai.onnx", "Dropout", random=True)
def dropout(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Zeros each element with probability ``ratio`` and scales the rest by 1 / (1 - ratio).

    The identity outside training. The optional second output is the mask, true where kept.
    """
    x = jnp.asarray(inputs[0])
    ratio = _ratio(context, attributes)
    if context.training and ratio > 0:
        mask = _keep_mask(context, x.shape, ratio)
        out = _dropped(x, mask, ratio)
    else:
        out, mask = x, jnp.ones(x.shape, jnp.bool_)
    return (out, mask) if context.num_outputs > 1 else out


@lowering("ai.graphcore", "ShapedDropout", random=True)
def shaped_dropout(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Dropout with a mask of the attribute ``shape``, broadcast to the input."""
    x = jnp.asarray(inputs[0])
    ratio = _ratio(context, attributes)
    if not context.training or ratio == 0:
        return x
    shape = tuple(int(size) for size in attributes["shape"])
    return _dropped(x, _keep_mask(context, shape, ratio), ratio)
