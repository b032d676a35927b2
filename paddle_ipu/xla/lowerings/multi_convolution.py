"""Lowering of MultiConv: several convolutions, each by itself."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.popart.shape_inference import multi_convolution
from paddle_ipu.popart.shape_inference.multi_convolution import INPUTS_EACH
from paddle_ipu.xla.lowerings.channels_last import Geometry, Padding
from paddle_ipu.xla.lowerings.convolution import convolved, with_bias
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering


def _padding(flat: Sequence[int]) -> Padding:
    """All begins, then all ends, as (begin, end) of each axis."""
    half = len(flat) // 2
    return tuple(zip(flat[:half], flat[half:], strict=True))


def _one(
    context: LoweringContext,
    x: jax.Array,
    weights: jax.Array,
    bias: Array | None,
    numbers: multi_convolution.Geometry,
    *,
    in_half: bool,
) -> jax.Array:
    geometry = Geometry(
        tuple(numbers.strides),
        _padding(numbers.pads),
        tuple(numbers.in_dilations),
        tuple(numbers.dilations),
        x.shape[1] // weights.shape[1],
    )
    out = convolved(context, x, weights, geometry, in_half=in_half)
    if any(numbers.out_pads):
        widths = [(0, 0, 0), (0, 0, 0), *((a, b, 0) for a, b in _padding(numbers.out_pads))]
        out = lax.pad(out, np.zeros((), out.dtype), widths)
    return with_bias(context, out, bias)


@lowering("ai.graphcore", "MultiConv")
def multi_conv(
    context: LoweringContext, inputs: Sequence[Array | None], attributes: Attributes
) -> list[jax.Array]:
    """Each convolution's result: data dilated by ``inDilations``, result padded by ``outPads``.

    ``partialsTypes`` gives the type of each one's partial sums, or one for all. Plans, tiles and
    memory proportions say how an IPU computes and change no number.
    """
    # The last convolution's bias may be omitted.
    padded = [*inputs, *[None] * (-len(inputs) % INPUTS_EACH)]
    data, kernels = (
        [jnp.asarray(value) for value in padded[at::INPUTS_EACH] if value is not None]
        for at in (0, 1)
    )
    biases = padded[2::INPUTS_EACH]
    types = [str(kind).upper() for kind in attributes.get("partialsTypes") or ()]
    types = types * len(data) if len(types) == 1 else types
    in_half = [kind == "HALF" for kind in types]
    in_half = in_half or [context.precision.half_convolutions] * len(data)
    numbers = multi_convolution.geometries(attributes, [x.ndim - 2 for x in data])
    return [
        _one(context, x, w, bias, each, in_half=context.is_half and half)
        for x, w, bias, each, half in zip(data, kernels, biases, numbers, in_half, strict=True)
    ]
