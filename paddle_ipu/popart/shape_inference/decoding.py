"""Inference of operators that decode sequences, measure predictions, rank and match."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo

_INT = ir.DataType.INT32


def viterbi(ctx: InferenceContext) -> list[TensorInfo]:
    """(potentials [B, T, N], transitions, lengths [B]) -> (scores [B], INT32 path [B, T])."""
    potentials = ctx.expect_rank(0, 3, 3)
    batch, times, _ = potentials.dims
    return [TensorInfo.of(potentials.dtype, (batch,)), TensorInfo.of(_INT, (batch, times))]


def edit_distance(ctx: InferenceContext) -> list[TensorInfo]:
    """(hypotheses [B, M], references [B, N], lengths [B], lengths [B]) -> FLOAT [B]."""
    return [TensorInfo.of(ir.DataType.FLOAT, ctx.expect_rank(0, 2, 2).dims[:1])]


def ctc_align(ctx: InferenceContext) -> list[TensorInfo]:
    """(tokens [B, T], lengths [B]) -> (tokens [B, T], INT32 lengths [B])."""
    tokens = ctx.expect_rank(0, 2, 2)
    return [tokens, TensorInfo.of(_INT, tokens.dims[:1])]


def auc(ctx: InferenceContext) -> list[TensorInfo]:
    """(predictions [N], labels [N], two counts) -> (FLOAT area, the two counts after it)."""
    return [TensorInfo.of(ir.DataType.FLOAT, ()), ctx.info(2), ctx.info(3)]


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
