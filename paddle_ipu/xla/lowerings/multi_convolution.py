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
from paddle_ipu.xla.registry import Attributes, LoweringContext, lowering


def _pairs(flat: Sequence[int]) -> list[tuple[int, int]]:
    half = len(flat) // 2
    return list(zip(flat[:half], flat[half:], strict=True))


def _convolved(x: Any, weights: Any, bias: Any, geometry: Geometry) -> Any:
    axes = tuple(range(x.ndim))
    out = lax.conv_general_dilated(
        x,
        weights,
        window_strides=geometry.strides,
        padding=_pairs(geometry.pads),
        lhs_dilation=geometry.in_dilations,
        rhs_dilation=geometry.dilations,
        feature_group_count=x.shape[1] // weights.shape[1],
        dimension_numbers=lax.ConvDimensionNumbers(axes, axes, axes),
    )
    if any(geometry.out_pads):
        widths = [(0, 0, 0), (0, 0, 0), *((a, b, 0) for a, b in _pairs(geometry.out_pads))]
        out = lax.pad(out, np.zeros((), out.dtype), widths)
    return out if bias is None else out + jnp.reshape(bias, (1, -1) + (1,) * (x.ndim - 2))


@lowering("ai.graphcore", "MultiConv")
def multi_conv(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """A result for each convolution: data dilated by ``inDilations``, result padded by ``outPads``.

    Plans, tiles and memory proportions say how an IPU computes and change no number.
    """
    given = list(inputs) + [None] * (-len(inputs) % INPUTS_EACH)
    rows = [given[at : at + INPUTS_EACH] for at in range(0, len(given), INPUTS_EACH)]
    ranks = [x.ndim - 2 for x, _, _ in rows]
    return [
        _convolved(jnp.asarray(x), jnp.asarray(weights), bias, geometry)
        for (x, weights, bias), geometry in zip(rows, geometries(attributes, ranks), strict=True)
    ]
