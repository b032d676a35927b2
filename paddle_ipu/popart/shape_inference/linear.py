"""Inference of MatMul and Gemm."""

from __future__ import annotations

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def matmul(ctx: InferenceContext) -> list[TensorInfo]:
    """NumPy's matmul: 1-D operands are promoted, leading dimensions broadcast."""
    dtype = ctx.same_dtype(0, 1)
    left, right = ctx.info(0).dims, ctx.info(1).dims
    for index, dims, side in ((0, left, "lhs"), (1, right, "rhs")):
        if not dims:
            raise ctx.error(
                f"doesn't support scalar tensor {ctx.input_id(index)} as the {side} input"
            )
    lhs = (1, *left) if len(left) == 1 else left
    rhs = (*right, 1) if len(right) == 1 else right
    if lhs[-1] != rhs[-2]:
        raise ctx.error(
            f"contracting dimensions unequal: lhs '{ctx.input_id(0)}' {shape_string(left)}, rhs "
            f"'{ctx.input_id(1)}' {shape_string(right)}"
        )
    out = ctx.broadcast(lhs[:-2], rhs[:-2])
    if len(left) > 1:
        out += (lhs[-2],)
    if len(right) > 1:
        out += (rhs[-1],)
    return [TensorInfo.of(dtype, out)]


def gemm(ctx: InferenceContext) -> list[TensorInfo]:
    """alpha·A'·B' + beta·C with A, B matrices and C broadcastable to the product."""
    dtype = ctx.same_dtype(0, 1, 2)
    left, right = ctx.expect_rank(0, 2, 2).dims, ctx.expect_rank(1, 2, 2).dims
    if ctx.attributes["transA"]:
        left = left[::-1]
    if ctx.attributes["transB"]:
        right = right[::-1]
    if left[1] != right[0]:
        raise ctx.error(
            f"contracting dimensions unequal: lhs '{ctx.input_id(0)}' {shape_string(left)}, rhs "
            f"'{ctx.input_id(1)}' {shape_string(right)}"
        )
    out = (left[0], right[1])
    if ctx.has(2) and ctx.broadcast(out, ctx.info(2).dims) != out:
        raise ctx.error(
            f"bias '{ctx.input_id(2)}' {shape_string(ctx.info(2).dims)} does not broadcast to "
            f"{shape_string(out)}"
        )
    return [TensorInfo.of(dtype, out)]
