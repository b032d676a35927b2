"""Inference of operators of ranking and matching models."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo


def dequant_gather(ctx: InferenceContext) -> list[TensorInfo]:
    """(table [V, 2 + D], indices [..., 1]) -> [..., 4 * D]: a float holds four bytes."""
    table = ctx.expect_rank(0, 2, 2)
    width = 4 * (table.dims[1] - 2)
    return [TensorInfo.of(ir.DataType.FLOAT, (*ctx.expect_rank(1, 1).dims[:-1], width))]


def bipartite_match(ctx: InferenceContext) -> list[TensorInfo]:
    """Distances [R, C] -> (INT32 row of each column, its distance)."""
    x = ctx.expect_rank(0, 2, 2)
    dims = x.dims[1:]
    return [TensorInfo.of(ir.DataType.INT32, dims), TensorInfo.of(x.dtype, dims)]
