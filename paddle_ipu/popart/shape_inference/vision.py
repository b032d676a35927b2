"""Inference of this package's own operators on images."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo


def _windows(ctx: InferenceContext) -> TensorInfo:
    """x [N, C, *spatial] with a window for each of ``counts`` positions an axis."""
    x = ctx.expect_rank(0, 3)
    counts = list(ctx.attributes["counts"])
    starts, ends = list(ctx.attributes["starts"]), list(ctx.attributes["ends"])
    if len(counts) != len(x.dims) - 2 or not len(starts) == len(ends) == sum(counts):
        raise ctx.error(
            f"counts {counts} must have one number for each spatial dimension of {x}, and starts "
            f"and ends one for each window; got {len(starts)} starts and {len(ends)} ends"
        )
    return TensorInfo.of(x.dtype, (*x.dims[:2], *counts))


def max_of_windows(ctx: InferenceContext) -> list[TensorInfo]:
    """x [N, C, *spatial] -> maxima [N, C, *counts] and where they are, int32."""
    out = _windows(ctx)
    return [out, TensorInfo.of(ir.DataType.INT32, out.dims)]


def sum_of_windows(ctx: InferenceContext) -> list[TensorInfo]:
    """x [N, C, *spatial] -> sums [N, C, *counts]."""
    return [_windows(ctx)]


def grid_sample(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, *spatial], grid [N, *out, rank]) -> [N, C, *out]."""
    x = ctx.expect_rank(0, 4, 5)
    grid = ctx.expect_rank(1, len(x.dims), len(x.dims))
    if grid.dims[0] != x.dims[0] or grid.dims[-1] != len(x.dims) - 2:
        raise ctx.error(
            f"the grid must have shape [{x.dims[0]}, ..., {len(x.dims) - 2}], got {grid}"
        )
    return [TensorInfo.of(x.dtype, (*x.dims[:2], *grid.dims[1:-1]))]


def unpool(ctx: InferenceContext) -> list[TensorInfo]:
    """(x, indices [N, C, *spatial]) -> [N, C, *sizes]."""
    x = ctx.expect_rank(0, 3)
    if ctx.info(1).dims != x.dims:
        raise ctx.error(f"the indices must have the shape of {x}, got {ctx.info(1)}")
    return [TensorInfo.of(x.dtype, (*x.dims[:2], *ctx.attributes["sizes"]))]


def regions(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, H, W], boxes [R, 4], counts [N]) -> [R, C, pooled_height, pooled_width], places."""
    x, boxes, counts = ctx.expect_rank(0, 4, 4), ctx.expect_rank(1, 2, 2), ctx.info(2)
    if boxes.dims[1] != 4 or counts.dims != x.dims[:1]:
        raise ctx.error(
            f"the boxes must have shape [R, 4] and their numbers [{x.dims[0]}], got {boxes} and "
            f"{counts}"
        )
    bins = (ctx.attributes["pooled_height"], ctx.attributes["pooled_width"])
    out = TensorInfo.of(x.dtype, (boxes.dims[0], x.dims[1], *bins))
    return [out, TensorInfo.of(ir.DataType.INT32, out.dims)][: ctx.num_outputs]


def regions_of_channels(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C * h * w, H, W], boxes [R, 4], counts [N]) -> [R, C, h, w]."""
    (out,) = regions(ctx)
    channels, high, wide = out.dims[1:]
    if channels % (high * wide):
        raise ctx.error(f"{channels} channels do not divide into bins of {high} x {wide}")
    return [TensorInfo.of(out.dtype, (out.dims[0], channels // (high * wide), high, wide))]


def deformable_conv(ctx: InferenceContext) -> list[TensorInfo]:
    """(x, offset [N, ., OH, OW], weights [M, C / groups, h, w], mask) -> [N, M, OH, OW]."""
    x, offset = ctx.expect_rank(0, 4, 4), ctx.expect_rank(1, 4, 4)
    weights = ctx.expect_rank(2, 4, 4)
    places = ctx.attributes["deformable_groups"] * weights.dims[2] * weights.dims[3]
    if offset.dims[1] != 2 * places:
        raise ctx.error(f"the offset must have {2 * places} channels, got {offset}")
    return [TensorInfo.of(x.dtype, (x.dims[0], weights.dims[0], *offset.dims[2:]))]


def yolo_loss(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, A * (5 + classes), H, W], boxes [N, B, 4], ...) -> [N], [N, A, H, W], [N, B]."""
    x, boxes = ctx.expect_rank(0, 4, 4), ctx.expect_rank(1, 3, 3)
    anchors = len(ctx.attributes["anchor_mask"])
    channels = anchors * (5 + ctx.attributes["class_num"])
    if x.dims[1] != channels:
        raise ctx.error(f"{x} must have {channels} channels")
    return [
        TensorInfo.of(x.dtype, x.dims[:1]),
        TensorInfo.of(x.dtype, (x.dims[0], anchors, *x.dims[2:])),
        TensorInfo.of(ir.DataType.INT32, boxes.dims[:2]),
    ]
