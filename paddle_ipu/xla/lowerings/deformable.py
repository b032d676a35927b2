"""Lowering of deformable convolution over images [N, C, H, W]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Constant, Inputs, optional_input
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


@lowering("ai.paddle_ipu", "DeformableConv")
def deformable_conv(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Convolution that reads at offset positions (Dai et al., arXiv:1703.06211; Zhu et al.,
    arXiv:1811.11168, with a mask).

    x [N, C, H, W], offset [N, 2 * D * h * w, OH, OW] as (y, x) of each kernel element, weights
    [M, C / groups, h, w], mask [N, D * h * w, OH, OW]; D deformable groups share the channels.
    """
    x, offset, weights = (jnp.asarray(value) for value in inputs[:3])
    mask = optional_input(inputs, 3)
    count, channels, height, width = x.shape
    kernel, out = weights.shape[2:], offset.shape[2:]
    shared, groups = int(attributes["deformable_groups"]), int(attributes["groups"])
    elements = kernel[0] * kernel[1]
    samples = elements * out[0] * out[1]
    offsets = offset.reshape(count, shared, elements, 2, *out)
    ys, xs = (offsets[:, :, :, axis] + _regular(attributes, axis, kernel, out) for axis in (0, 1))
    inside_image = (ys > -1) & (xs > -1) & (ys < height) & (xs < width)
    low_y, low_x = (jnp.floor(lax.stop_gradient(position)) for position in (ys, xs))
    image = x.reshape(count, shared, channels // shared, height * width)
    # Bilinear samples: each is the weighted sum of the four pixels around it.
    columns: Any = 0.0
    for up in (0, 1):
        for right in (0, 1):
            at_y, at_x = low_y + up, low_x + right
            weight = (ys - low_y if up else low_y + 1 - ys) * (
                xs - low_x if right else low_x + 1 - xs
            )
            inside = inside_image & (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
            flat = jnp.clip(at_y, 0, height - 1) * width + jnp.clip(at_x, 0, width - 1)
            flat = flat.astype(jnp.int32).reshape(count, shared, 1, samples)
            pixels = jnp.take_along_axis(image, flat, axis=3)
            # Infinities of the edge belong to no sample outside.
            pixels = jnp.where(inside.reshape(flat.shape), pixels, 0.0)
            columns = columns + pixels * jnp.where(inside, weight, 0.0).reshape(flat.shape)
    if mask is not None:
        columns = columns * jnp.asarray(mask).reshape(count, shared, 1, samples)
    columns = columns.reshape(count, groups, (channels // groups) * elements, out[0] * out[1])
    rows = weights.reshape(groups, weights.shape[0] // groups, weights.shape[1] * elements)
    result = jnp.einsum("gmk,ngkp->ngmp", rows, columns, precision=lax.Precision.HIGHEST)
    return result.reshape(count, weights.shape[0], *out)


def _regular(
    attributes: Attributes, axis: int, kernel: Sequence[int], out: Sequence[int]
) -> Constant:
    """Where a plain convolution reads along an axis: [kernel elements, OH, OW]."""
    stride, padding = int(attributes["strides"][axis]), int(attributes["paddings"][axis])
    taps = np.arange(kernel[axis]) * int(attributes["dilations"][axis]) - padding
    steps = np.arange(out[axis]) * stride
    positions = taps[:, None] + steps
    shape = [1, 1, 1, 1]
    shape[axis], shape[axis + 2] = positions.shape
    full = np.broadcast_to(positions.reshape(shape), (*kernel, *out))
    return full.reshape(-1, *out).astype(np.float32)
