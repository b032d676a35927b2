"""Inference of Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.errors import popart_exception
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
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "pytorch")
"""The last is PopART's own: the element below ``index / scale``, whatever the coordinates."""


def scaled_length(size: int, scale: float) -> float:
    """The length of an axis times its scale, in single precision; rounded down, the new length."""
    return float(np.float32(size) * np.float32(scale))


def _one_of(ctx: InferenceContext, name: str, known: Sequence[str]) -> None:
    value = ctx.attributes.get(name, known[0])
    if value not in known:
        raise ctx.error(f"{name} is '{value}', expected one of {', '.join(known)}")


def _larger(ctx: InferenceContext, scales: Sequence[float]) -> list[TensorInfo]:
    x = ctx.info(0)
    if len(scales) != len(x.dims):
        raise ctx.told(
            f"The number of dimensions of the resize op scales ({len(scales)}) must match the "
            f"number of dimensions of the input ({len(x.dims)}).",
            f"has scales {list(scales)} of {shape_string(x.dims)}",
        )
    if any(scale <= 0 for scale in scales):
        raise ctx.error(f"scales must be positive, got {list(scales)}")
    lengths = map(scaled_length, x.dims, scales)
    return [TensorInfo.of(x.dtype, tuple(map(int, lengths)))]


def _scales(ctx: InferenceContext, index: int) -> list[float]:
    return [float(scale) for scale in ctx.constant(index, "scales").reshape(-1)]


def scaled(ctx: InferenceContext) -> list[TensorInfo]:
    """Resize-10 and Upsample-9: (x, scales), one scale an axis."""
    _one_of(ctx, "mode", MODES[:2])
    _one_of(ctx, "coordinate_transformation_mode", COORDINATES[:-1])
    _one_of(ctx, "nearest_mode", NEAREST)
    return _larger(ctx, _scales(ctx, 1))


def scaled_by_attribute(ctx: InferenceContext) -> list[TensorInfo]:
    """Upsample-7, with the attribute `scales`."""
    return _larger(ctx, ctx.attributes["scales"])


def scaled_by_two_attributes(ctx: InferenceContext) -> list[TensorInfo]:
    """Upsample-1: the last two dimensions, by `height_scale` and `width_scale`."""
    outer = [1.0] * (ctx.info(0).rank() - 2)
    return _larger(ctx, [*outer, ctx.attributes["height_scale"], ctx.attributes["width_scale"]])


def resize(ctx: InferenceContext) -> list[TensorInfo]:
    """Resize-11: (x, roi, scales, sizes); either the scales or the sizes are empty."""
    _one_of(ctx, "mode", MODES)
    _one_of(ctx, "coordinate_transformation_mode", COORDINATES)
    _one_of(ctx, "nearest_mode", NEAREST)
    x = ctx.info(0)
    scales = _scales(ctx, 2) if ctx.has(2) else []
    sizes = ctx.constant_ints(3, "sizes") if ctx.has(3) and ctx.info(3).nelms() else []
    if scales and sizes:
        raise popart_exception(
            "Resize op has inputs for `sizes` and `scales`. Only one of these tensors should be "
            "present. If `sizes` is needed, please pass an empty string as the name of `scales` "
            "in the input list ( resize([X, roi, '', sizes]) ). If the proto is not generated "
            "from the PopART Builder, please confirm that only one of the two tensors shall have "
            "data."
        )
    if not scales and not sizes:
        raise popart_exception(
            "Resize op has no input for `size` or `scales`. One of these tensors needs to be "
            "present."
        )
    if ctx.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        region = ctx.constant(1, "roi")
        if region.size != 2 * len(x.dims):
            raise ctx.error(
                f"roi must hold a start and an end for each of the {len(x.dims)} dimensions of "
                f"{shape_string(x.dims)}, got {region.size} values"
            )
    if scales:
        return _larger(ctx, scales)
    if len(sizes) != len(x.dims):
        raise ctx.told(
            f"ResizeOp, length of sizes ({len(sizes)}) does not match the rank of input shape "
            f"({len(x.dims)}).",
            f"sizes {sizes} must hold one size for each of the {len(x.dims)} dimensions",
        )
    if min(sizes) < 0:
        raise ctx.error(
            f"sizes {sizes} must hold one size for each of the {len(x.dims)} dimensions"
        )
    return [TensorInfo.of(x.dtype, tuple(sizes))]
