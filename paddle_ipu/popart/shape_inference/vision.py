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
