"""Inference of operators that rearrange or prepare images."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string

_CHANNELS, _PADDED_CHANNELS = 3, 4


def _block(ctx: InferenceContext) -> int:
    size = int(ctx.attributes["blocksize"])
    if size < 1:
        raise ctx.error(f"blocksize must be positive, got {size}")
    return size


def depth_to_space(ctx: InferenceContext) -> list[TensorInfo]:
    """[N, C, H, W] -> [N, C / b^2, H * b, W * b], with b the attribute `blocksize`."""
    x, size = ctx.expect_rank(0, 4, 4), _block(ctx)
    mode = ctx.attributes.get("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise ctx.error(f"mode is '{mode}', expected DCR or CRD")
    n, c, h, w = x.dims
    if c % (size * size):
        raise ctx.error(
            f"cannot move {c} channels of {shape_string(x.dims)} into blocks of {size} by {size}"
        )
    return [TensorInfo.of(x.dtype, (n, c // (size * size), h * size, w * size))]


def space_to_depth(ctx: InferenceContext) -> list[TensorInfo]:
    """[N, C, H, W] -> [N, C * b^2, H / b, W / b], with b the attribute `blocksize`."""
    x, size = ctx.expect_rank(0, 4, 4), _block(ctx)
    n, c, h, w = x.dims
    if h % size or w % size:
        raise ctx.error(f"cannot cut {shape_string(x.dims)} into blocks of {size} by {size}")
    return [TensorInfo.of(x.dtype, (n, c * size * size, h // size, w // size))]


def normalize_image(ctx: InferenceContext) -> list[TensorInfo]:
    """(image [..., 3], offsets [3], scales [3]) -> [..., 4]; half for an image of bytes."""
    image = ctx.expect_rank(0, 1)
    if image.dims[-1] != _CHANNELS:
        raise ctx.error(f"the image must have {_CHANNELS} channels in its last axis, got {image}")
    if not image.dtype.is_floating_point() and image.dtype != ir.DataType.UINT8:
        raise ctx.error(f"the image must be UINT8, FLOAT16 or FLOAT, got {image}")
    dtype = image.dtype if image.dtype.is_floating_point() else ir.DataType.FLOAT16
    for index, name in ((1, "offsets"), (2, "scales")):
        given = ctx.info(index)
        if given != TensorInfo.of(dtype, (_CHANNELS,)):
            wanted = TensorInfo.of(dtype, (_CHANNELS,))
            raise ctx.error(f"the {name} must be {wanted}, got {given}")
    return [TensorInfo.of(dtype, (*image.dims[:-1], _PADDED_CHANNELS))]
