"""Inference of decompositions and solvers of matrices; leading dimensions are stacks of them."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import Dims, InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def _matrix(ctx: InferenceContext, index: int = 0) -> tuple[ir.DataType, Dims, int, int]:
    """Element type, stack, rows and columns of an input."""
    info = ctx.expect_rank(index, 2)
    return info.dtype, info.dims[:-2], info.dims[-2], info.dims[-1]


def _square(ctx: InferenceContext, index: int = 0) -> tuple[ir.DataType, Dims, int]:
    dtype, stack, rows, columns = _matrix(ctx, index)
    if rows != columns:
        raise ctx.error(
            f"input {index} '{ctx.input_id(index)}' has shape "
            f"{shape_string(ctx.info(index).dims)}, expected square matrices"
        )
    return dtype, stack, rows


def square(ctx: InferenceContext) -> list[TensorInfo]:
    """Square matrices to matrices of the same shape."""
    _square(ctx)
    return [ctx.info(0)]


def determinant(ctx: InferenceContext) -> list[TensorInfo]:
    """One number for each square matrix."""
    dtype, stack, _ = _square(ctx)
    return [TensorInfo.of(dtype, stack)] * ctx.num_outputs


def eigh(ctx: InferenceContext) -> list[TensorInfo]:
    """Eigenvalues in ascending order and, in columns, the eigenvectors."""
    dtype, stack, size = _square(ctx)
    return [TensorInfo.of(dtype, (*stack, size)), ctx.info(0)]


def svd(ctx: InferenceContext) -> list[TensorInfo]:
    """(U, S, V transposed); only S with ``values_only``."""
    dtype, stack, rows, columns = _matrix(ctx)
    least = min(rows, columns)
    values = TensorInfo.of(dtype, (*stack, least))
    if ctx.attributes["values_only"]:
        return [values]
    full = ctx.attributes["full_matrices"]
    return [
        TensorInfo.of(dtype, (*stack, rows, rows if full else least)),
        values,
        TensorInfo.of(dtype, (*stack, columns if full else least, columns)),
    ]


def qr(ctx: InferenceContext) -> list[TensorInfo]:
    """(Q, R), all columns of Q with ``complete``."""
    dtype, stack, rows, columns = _matrix(ctx)
    inner = rows if ctx.attributes["complete"] else min(rows, columns)
    return [
        TensorInfo.of(dtype, (*stack, rows, inner)),
        TensorInfo.of(dtype, (*stack, inner, columns)),
    ]


def lu(ctx: InferenceContext) -> list[TensorInfo]:
    """L and U in one matrix, the rows that were exchanged, and LAPACK's info."""
    _, stack, rows, columns = _matrix(ctx)
    pivots = TensorInfo.of(ir.DataType.INT32, (*stack, min(rows, columns)))
    return [ctx.info(0), pivots, TensorInfo.of(ir.DataType.INT32, tuple(stack))]


def lu_unpack(ctx: InferenceContext) -> list[TensorInfo]:
    """(P, L, U) of what Lu gives."""
    dtype, stack, rows, columns = _matrix(ctx)
    inner = min(rows, columns)
    return [
        TensorInfo.of(dtype, (*stack, rows, rows)),
        TensorInfo.of(dtype, (*stack, rows, inner)),
        TensorInfo.of(dtype, (*stack, inner, columns)),
    ]


def solve(ctx: InferenceContext) -> list[TensorInfo]:
    """Square matrices and right sides, whose stacks broadcast, to solutions."""
    dtype, stack, size = _square(ctx)
    _, other, rows, columns = _matrix(ctx, 1)
    if rows != size:
        raise ctx.error(
            f"input 1 '{ctx.input_id(1)}' has {rows} rows, expected {size}, as many as the matrix"
        )
    return [TensorInfo.of(dtype, (*ctx.broadcast(stack, other), size, columns))]


def least_squares(ctx: InferenceContext) -> list[TensorInfo]:
    """Matrices and right sides of one stack to solutions."""
    dtype, stack, rows, columns = _matrix(ctx)
    _, other, others, width = _matrix(ctx, 1)
    if (stack, rows) != (other, others):
        raise ctx.error(
            f"input 1 '{ctx.input_id(1)}' has shape {shape_string(ctx.info(1).dims)}, expected "
            f"the stack and the rows of {shape_string(ctx.info(0).dims)}"
        )
    return [TensorInfo.of(dtype, (*stack, columns, width))]
