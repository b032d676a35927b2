"""Inference of reductions, arg-reductions, sorting and cumulation."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import Dims, InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo


def _reduced(ctx: InferenceContext, dims: Dims, axes: list[int] | None, keep: bool) -> Dims:
    reduced = set(ctx.axes(axes, len(dims))) if axes is not None else set(range(len(dims)))
    if keep:
        return tuple(1 if axis in reduced else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in reduced)


def reduce(ctx: InferenceContext) -> list[TensorInfo]:
    """Reduce*: over `axes`, over everything where the attribute is absent, nothing where empty."""
    x = ctx.info(0)
    axes = ctx.attributes.get("axes")
    return [TensorInfo.of(x.dtype, _reduced(ctx, x.dims, axes, bool(ctx.attributes["keepdims"])))]


def median(ctx: InferenceContext) -> list[TensorInfo]:
    """(values, indices) of the lower median over `axes`, as :func:`reduce`."""
    x = ctx.info(0)
    axes = ctx.attributes.get("axes")
    dims = _reduced(ctx, x.dims, axes, bool(ctx.attributes["keepdims"]))
    if not x.nelms():
        raise ctx.error(f"{x} has no median: it has no elements")
    return [TensorInfo.of(x.dtype, dims), TensorInfo.of(ir.DataType.INT32, dims)]


def bucketize(ctx: InferenceContext) -> list[TensorInfo]:
    """(x, boundaries [B]) -> the number of each element's bucket, 0 to B."""
    ctx.expect_rank(1, 1, 1)
    ctx.same_dtype(0, 1)
    return [TensorInfo.of(ir.DataType.INT32, ctx.info(0).dims)]


def arg_reduce(ctx: InferenceContext) -> list[TensorInfo]:
    """ArgMax, ArgMin: indices along one axis."""
    x = ctx.info(0)
    keep = bool(ctx.attributes["keepdims"])
    return [TensorInfo.of(ir.DataType.INT64, _reduced(ctx, x.dims, [ctx.attributes["axis"]], keep))]


def softmax(ctx: InferenceContext) -> list[TensorInfo]:
    """Softmax up to opset 11 flattens around `axis`, so `axis` may equal the rank."""
    x = ctx.info(0)
    ctx.axis(ctx.attributes["axis"], len(x.dims), inclusive=True)
    return [x]


def topk(ctx: InferenceContext) -> list[TensorInfo]:
    """(values, indices) of the k largest or smallest along one axis."""
    return _largest(ctx, ctx.constant_ints(1, "k"))


def topk_by_attribute(ctx: InferenceContext) -> list[TensorInfo]:
    """TopK of opset 1, with k as an attribute."""
    return _largest(ctx, [ctx.attributes["k"]])


def _largest(ctx: InferenceContext, wanted: list[int]) -> list[TensorInfo]:
    x = ctx.expect_rank(0, 1)
    axis = ctx.axis(ctx.attributes["axis"], len(x.dims))
    if len(wanted) != 1 or not 0 <= wanted[0] <= x.dims[axis]:
        raise ctx.error(
            f"k is {wanted}, expected one value in 0..{x.dims[axis]}, the size of axis {axis}"
        )
    dims = (*x.dims[:axis], wanted[0], *x.dims[axis + 1 :])
    return [TensorInfo.of(x.dtype, dims), TensorInfo.of(ir.DataType.INT64, dims)]


def sort(ctx: InferenceContext) -> list[TensorInfo]:
    """(values, indices) along one axis."""
    x = ctx.expect_rank(0, 1)
    ctx.axis(ctx.attributes["axis"], len(x.dims))
    return [x, TensorInfo.of(ir.DataType.INT32, x.dims)][: ctx.num_outputs]


def cumsum(ctx: InferenceContext) -> list[TensorInfo]:
    """(x, axis): the axis is a constant scalar."""
    x = ctx.info(0)
    axis = ctx.constant_ints(1, "axis")
    if len(axis) != 1:
        raise ctx.error(f"axis must be one value, got {axis}")
    ctx.axis(axis[0], len(x.dims))
    return [x]
