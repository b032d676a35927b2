"""Lowerings of operators that rearrange or prepare images."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from paddle_ipu.xla.lowerings.arrays import Inputs
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering


@lowering("ai.onnx", "DepthToSpace")
@lowering("ai.graphcore", "DepthToSpace")
def depth_to_space(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Blocks of ``blocksize`` by ``blocksize`` pixels, each of as many channels of x [N, C, H, W].

    In ``mode`` DCR (default) a pixel's channels lie together, in CRD a channel's pixels.
    """
    x, size = inputs[0], int(attributes["blocksize"])
    n, c, h, w = x.shape
    kept = c // (size * size)
    if attributes.get("mode", "DCR") == "CRD":
        split = x.reshape(n, kept, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        split = x.reshape(n, size, size, kept, h, w).transpose(0, 3, 4, 1, 5, 2)
    return split.reshape(n, kept, h * size, w * size)


@lowering("ai.onnx", "SpaceToDepth")
def space_to_depth(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Each block of ``blocksize`` by ``blocksize`` pixels of x [N, C, H, W] laid into channels."""
    x, size = inputs[0], int(attributes["blocksize"])
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // size, size, w // size, size).transpose(0, 3, 5, 1, 2, 4)
    return blocks.reshape(n, c * size * size, h // size, w // size)


@lowering("ai.graphcore", "NormalizeImage")
def normalize_image(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``(image * scale - offsets) * scales`` by channel, with a fourth channel of zeros."""
    image, offsets, scales = (jnp.asarray(value) for value in inputs)
    scaled = image.astype(offsets.dtype) * float(attributes["scale"])
    widths = [(0, 0)] * (image.ndim - 1) + [(0, 1)]
    return jnp.pad((scaled - offsets) * scales, widths)
