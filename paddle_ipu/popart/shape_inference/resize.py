"""Inference of Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _one_of(ctx: InferenceContext, name: str, known: Sequence[str]) -> None:
    value = ctx.attributes.get(name, known[0])
    if value not in known:
        raise ctx.error(f"{name} is '{value}', expected one of {', '.join(known)}")


def _larger(ctx: InferenceContext, scales: Sequence[float]) -> list[TensorInfo]:
    x = ctx.info(0)
    if len(scales) != len(x.dims):
        raise ctx.error(
            f"There should be exactly {len(x.dims)} elements in resize op inputs, scales. Scales "
            f"has {len(scales)} elements."
        )
    if any(scale <= 0 for scale in scales):
        raise ctx.error(f"scales must be positive, got {list(scales)}")
    dims = tuple(math.floor(size * scale) for size, scale in zip(x.dims, scales, strict=True))
    return [TensorInfo.of(x.dtype, dims)]


def _scales(ctx: InferenceContext, index: int) -> list[float]:
    return [float(scale) for scale in ctx.constant(index, "scales").reshape(-1)]


def scaled(ctx: InferenceContext) -> list[TensorInfo]:
    """Resize-10 and Upsample-9: (x, scales), one scale an axis."""
    _one_of(ctx, "mode", MODES[:2])
    return _larger(ctx, _scales(ctx, 1))


def scaled_by_attribute(ctx: InferenceContext) -> list[TensorInfo]:
    """Upsample-7, with the attribute `scales`."""
    return _larger(ctx, ctx.attributes["scales"])


def resize(ctx: InferenceContext) -> list[TensorInfo]:
    """Resize-11: (x, roi, scales, sizes); either the scales or the sizes are empty."""
    _one_of(ctx, "mode", MODES)
    _one_of(ctx, "coordinate_transformation_mode", COORDINATES)
    _one_of(ctx, "nearest_mode", NEAREST)
    x = ctx.info(0)
    scales = _scales(ctx, 2) if ctx.has(2) else []
    sizes = ctx.constant_ints(3, "sizes") if ctx.has(3) and ctx.info(3).nelms() else []
    if bool(scales) == bool(sizes):
        given = "both" if scales else "neither"
        raise ctx.error(f"takes either scales or sizes, {given} given")
    if ctx.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        region = ctx.constant(1, "roi")
        if region.size != 2 * len(x.dims):
            raise ctx.error(
                f"roi must hold a start and an end for each of the {len(x.dims)} dimensions of "
                f"{shape_string(x.dims)}, got {region.size} values"
            )
    if scales:
        return _larger(ctx, scales)
    if len(sizes) != len(x.dims) or min(sizes) < 0:
        raise ctx.error(
            f"sizes {sizes} must hold one size for each of the {len(x.dims)} dimensions"
        )
    return [TensorInfo.of(x.dtype, tuple(sizes))]
