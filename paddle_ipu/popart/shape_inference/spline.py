"""Inference of SplineBasis and SplineWeighting."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo


def basis(ctx: InferenceContext) -> list[TensorInfo]:
    """(pseudo [E, D], kernel_size [D], is_open_spline [D]) -> two [E, (degree + 1)^D]."""
    pseudo, degree = ctx.expect_rank(0, 2, 2), ctx.attributes["degree"]
    if degree not in (1, 2, 3):
        raise ctx.error(f"degree is {degree}, expected 1, 2 or 3")
    edges, dimensions = pseudo.dims
    for index, name in ((1, "kernel_size"), (2, "is_open_spline")):
        if ctx.info(index).dims != (dimensions,):
            raise ctx.error(f"the {name} must have shape [{dimensions}], got {ctx.info(index)}")
    dims = (edges, (degree + 1) ** dimensions)
    return [TensorInfo.of(pseudo.dtype, dims), TensorInfo.of(ir.DataType.INT32, dims)]


def weighting(ctx: InferenceContext) -> list[TensorInfo]:
    """(input [E, I], weight [K, I, O], basis [E, S], weight index [E, S]) -> [E, O]."""
    dtype = ctx.same_dtype(0, 1, 2)
    x, weight = ctx.expect_rank(0, 2, 2), ctx.expect_rank(1, 3, 3)
    if weight.dims[1] != x.dims[1]:
        raise ctx.error(f"weight {weight} does not take the {x.dims[1]} features of {x}")
    rows, index = ctx.expect_rank(2, 2, 2), ctx.info(3)
    if rows.dims[0] != x.dims[0] or index.dims != rows.dims:
        raise ctx.error(
            f"basis {rows} and weight index {index} must have one row for each of the "
            f"{x.dims[0]} rows of the input"
        )
    return [TensorInfo.of(dtype, (x.dims[0], weight.dims[2]))]
