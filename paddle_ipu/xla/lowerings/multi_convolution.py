"""Lowering of MultiConv: several convolutions, each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.popart.shape_inference.multi_convolution import (
    INPUTS_EACH,
    Geometry,
    geometries,
)
from paddle_ipu.xla.lowerings.convolution import convolved
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _pairs(flat: Sequence[int]) -> list[tuple[int, int]]:
    half = len(flat) // 2
    return list(zip(flat[:half], flat[half:], strict=True))


def _convolved(
    x: Any, weights: Any, bias: Any, geometry: Geometry, in_half: bool, training: bool
) -> Any:
    out = convolved(
        x,
        weights,
        geometry.strides,
        _pairs(geometry.pads),
        geometry.in_dilations,
        geometry.dilations,
        x.shape[1] // weights.shape[1],
        in_half,
        training,
    )
    if any(geometry.out_pads):
        widths = [(0, 0, 0), (0, 0, 0), *((a, b, 0) for a, b in _pairs(geometry.out_pads))]
        out = lax.pad(out, np.zeros((), out.dtype), widths)
    return out if bias is None else out + jnp.reshape(bias, (1, -1) + (1,) * (x.ndim - 2))


@lowering("ai.graphcore", "MultiConv")
def multi_conv(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """A result for each convolution: data dilated by ``inDilations``, result padded by ``outPads``.

    ``partialsTypes`` gives the type of each one's partial sums, or one for all. Plans, tiles and
    memory proportions say how an IPU computes and change no number.
    """
    given = list(inputs) + [None] * (-len(inputs) % INPUTS_EACH)
    rows = [given[at : at + INPUTS_EACH] for at in range(0, len(given), INPUTS_EACH)]
    ranks = [x.ndim - 2 for x, _, _ in rows]
    asked = [str(kind).upper() for kind in attributes.get("partialsTypes") or ()]
    asked = asked * len(rows) if len(asked) == 1 else asked
    wanted = [kind == "HALF" for kind in asked] or [context.precision.half_convolutions] * len(rows)
    return [
        _convolved(
            jnp.asarray(x),
            jnp.asarray(weights),
            bias,
            geometry,
            context.is_half and half,
            context.training,
        )
        for (x, weights, bias), geometry, half in zip(
            rows, geometries(attributes, ranks), wanted, strict=True
        )
    ]
