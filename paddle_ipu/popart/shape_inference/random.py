"""Inference of operators that draw random numbers."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo

_DRAWN = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _refuse_seed(ctx: InferenceContext) -> None:
    if ctx.attributes.get("seed") is not None:
        raise popart_exception(
            f"{ctx.identifier}: Optional seed attribute is not supported. Use "
            "session::setRandomSeed instead."
        )


def _drawn_dtype(ctx: InferenceContext, number: int) -> ir.DataType:
    dtype = ir.DataType(number)
    if dtype not in _DRAWN:
        raise popart_exception(
            f"The data type {dtype.name} is not supported in Poplar. {_cannot_draw(ctx, dtype)}"
        )
    return dtype


def _cannot_draw(ctx: InferenceContext, dtype: ir.DataType) -> str:
    return f"{ctx.op} cannot draw {dtype.name}: expected FLOAT, FLOAT16 or BFLOAT16"


def by_shape(ctx: InferenceContext) -> list[TensorInfo]:
    """RandomNormal, RandomUniform: the attributes `shape` and `dtype`."""
    _refuse_seed(ctx)
    return seeded_by_shape(ctx)


def seeded_by_shape(ctx: InferenceContext) -> list[TensorInfo]:
    """The attributes `shape` and `dtype`, drawn from a seed of its own or the session's."""
    dims = tuple(ctx.attributes.get("shape") or ())
    return [TensorInfo.of(_drawn_dtype(ctx, ctx.attributes["dtype"]), dims)]


def like(ctx: InferenceContext) -> list[TensorInfo]:
    """RandomNormalLike, RandomUniformLike: the input's shape; its type unless `dtype` is given."""
    _refuse_seed(ctx)
    number, dtype = ctx.attributes.get("dtype"), ctx.info(0).dtype
    if number is not None:
        dtype = _drawn_dtype(ctx, number)
    elif dtype not in _DRAWN:
        raise popart_exception(
            f"{ctx.identifier} : Unsupported data type requested: {dtype.name}. "
            f"{_cannot_draw(ctx, dtype)}"
        )
    return [TensorInfo.of(dtype, ctx.info(0).dims)]


def integers_by_shape(ctx: InferenceContext) -> list[TensorInfo]:
    """INT32 of the attribute `shape`."""
    return [TensorInfo.of(ir.DataType.INT32, tuple(ctx.attributes.get("shape") or ()))]


def permutation(ctx: InferenceContext) -> list[TensorInfo]:
    """INT32 [n]."""
    return [TensorInfo.of(ir.DataType.INT32, (ctx.attributes["n"],))]


def binomial(ctx: InferenceContext) -> list[TensorInfo]:
    """(count, probability), broadcast -> INT32."""
    dims = ctx.broadcast(ctx.info(0).dims, ctx.info(1).dims)
    return [TensorInfo.of(ir.DataType.INT32, dims)]


def multinomial(ctx: InferenceContext) -> list[TensorInfo]:
    """Weights [..., C] -> INT32 [..., num_samples]."""
    x = ctx.expect_rank(0, 1)
    return [TensorInfo.of(ir.DataType.INT32, (*x.dims[:-1], ctx.attributes["num_samples"]))]


def class_centers(ctx: InferenceContext) -> list[TensorInfo]:
    """Labels [N] -> (labels among the sampled classes [N], the classes [num_samples]), INT32."""
    label = ctx.info(0)
    return [
        TensorInfo.of(ir.DataType.INT32, label.dims),
        TensorInfo.of(ir.DataType.INT32, (ctx.attributes["num_samples"],)),
    ]


def seeded_permutation(ctx: InferenceContext) -> list[TensorInfo]:
    """A seed -> (INT32 [n], the next seed)."""
    return [
        TensorInfo.of(ir.DataType.INT32, (ctx.attributes["n"],)),
        TensorInfo.of(ir.DataType.INT32, ctx.info(0).dims),
    ]


def top_p(ctx: InferenceContext) -> list[TensorInfo]:
    """(probabilities [B, V], p) -> (their probability [B], INT32 index [B])."""
    x = ctx.expect_rank(0, 2, 2)
    return [TensorInfo.of(x.dtype, x.dims[:1]), TensorInfo.of(ir.DataType.INT32, x.dims[:1])]
