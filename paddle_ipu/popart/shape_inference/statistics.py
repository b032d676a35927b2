"""Inference of running extremes, medians, counts and searches."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def scan(ctx: InferenceContext) -> list[TensorInfo]:
    """Running values along ``axis`` and where they stood."""
    x = ctx.expect_rank(0, 1)
    ctx.axis(ctx.attributes["axis"], len(x.dims))
    return [x, TensorInfo.of(ir.DataType.INT32, x.dims)]


def last_axis(ctx: InferenceContext) -> list[TensorInfo]:
    """One element of the last axis and where it stood."""
    x = ctx.expect_rank(0, 1)
    return [TensorInfo.of(x.dtype, x.dims[:-1]), TensorInfo.of(ir.DataType.INT32, x.dims[:-1])]


def median(ctx: InferenceContext) -> list[TensorInfo]:
    """The middle of the last axis; where it stood, or where the two stood that are averaged."""
    x = ctx.expect_rank(0, 1)
    pair = (2,) if ctx.attributes["average"] else ()
    return [
        TensorInfo.of(x.dtype, x.dims[:-1]),
        TensorInfo.of(ir.DataType.INT32, (*x.dims[:-1], *pair)),
    ]


def search(ctx: InferenceContext) -> list[TensorInfo]:
    """A place in the ordered last axis of input 0 for each element of input 1."""
    ctx.same_dtype(0, 1)
    ordered, values = ctx.expect_rank(0, 1), ctx.info(1)
    if len(ordered.dims) > 1 and ordered.dims[:-1] != values.dims[:-1]:
        raise ctx.error(
            f"the shapes {shape_string(ordered.dims)} and {shape_string(values.dims)} must agree "
            "but for the last dimension, unless the first has only one"
        )
    return [TensorInfo.of(ir.DataType.INT32, values.dims)]


def histogram(ctx: InferenceContext) -> list[TensorInfo]:
    """How many elements, or how much weight, fall into each bin."""
    weighted = ctx.has(1) or ctx.attributes["density"]
    dtype = ir.DataType.FLOAT if weighted else ir.DataType.INT32
    return [TensorInfo.of(dtype, (ctx.attributes["bins"],))]
