"""Inference of reductions, arg-reductions, sorting and cumulation."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
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
    x, boundaries, right = ctx.info(0), ctx.info(1), ctx.attributes["right"]
    if len(boundaries.dims) != 1:
        raise ctx.told(
            "BucketizeOp::setup The boundaries tensor is not a 1-D tensor. The boundaries tensor "
            f"rank = {len(boundaries.dims)}.",
            f"got {boundaries}",
        )
    if x.dtype != boundaries.dtype:
        raise ctx.told(
            "BucketizeOp::setup The input and boundaries tensors have different data types. The "
            f"input tensor data type = {x.data_type_lcase()}. The boundaries tensor data type = "
            f"{boundaries.data_type_lcase()}.",
            f"has {ctx.of_two_types(0, 1)}",
        )
    if right not in (0, 1):
        raise popart_exception(f"BucketizeOp right = {right} is not valid: must be either 0 or 1.")
    return [TensorInfo.of(ir.DataType.INT32, x.dims)]


def arg_reduce(ctx: InferenceContext) -> list[TensorInfo]:
    """ArgMax, ArgMin: indices along one axis."""
    x, axis = ctx.info(0), ctx.attributes["axis"]
    keep = bool(ctx.attributes["keepdims"])
    _check_axis(ctx, "ArgExtremaOp", axis, len(x.dims))
    return [TensorInfo.of(ir.DataType.INT64, _reduced(ctx, x.dims, [axis], keep))]


def _check_axis(ctx: InferenceContext, name: str, axis: int, rank: int) -> None:
    """Raises as PopART does for an axis of one of its operators that the input has not."""
    if rank == 0:
        raise popart_exception(
            f"{name} input rank must be greater than 0, invalid {name} {ctx.op}."
        )
    if axis >= rank:
        raise popart_exception(
            f"Cannot compute {name} on axis {axis} when input rank is {rank}, invalid {name} "
            f"{ctx.op}."
        )
    if axis < -rank:
        raise ctx.told(
            f"Axis {axis} is out of acceptable range [{-rank}, {rank - 1}]",
            f"has an input of rank {rank}",
        )


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
    x = ctx.info(0)
    _check_axis(ctx, "BaseSortOp", ctx.attributes["axis"], len(x.dims))
    axis = ctx.axis(ctx.attributes["axis"], len(x.dims))
    if len(wanted) != 1 or not 0 <= wanted[0] <= x.dims[axis]:
        raise popart_exception(
            f"Cannot take top-{' '.join(map(str, wanted))} on dim of size {x.dims[axis]}, invalid "
            f"Op {ctx.op}: k is {wanted}, expected one value in 0..{x.dims[axis]}, the size of "
            f"axis {axis}"
        )
    dims = (*x.dims[:axis], wanted[0], *x.dims[axis + 1 :])
    return [TensorInfo.of(x.dtype, dims), TensorInfo.of(ir.DataType.INT64, dims)]


def sort(ctx: InferenceContext) -> list[TensorInfo]:
    """(values, indices) along one axis."""
    x = ctx.info(0)
    _check_axis(ctx, "BaseSortOp", ctx.attributes["axis"], len(x.dims))
    return [x, TensorInfo.of(ir.DataType.INT32, x.dims)][: ctx.num_outputs]


def cumsum(ctx: InferenceContext) -> list[TensorInfo]:
    """(x, axis): the axis is a constant scalar."""
    x = ctx.info(0)
    for name in ("exclusive", "reverse"):
        if ctx.attributes[name] not in (0, 1):
            raise ctx.told(
                f"CumSum op, '{name}' attributes must be 0 or 1.", f"has {ctx.attributes[name]}"
            )
    if ctx.info(1).nelms() != 1:
        raise ctx.told("CumSum op, 'axis' tensor must have one element.", f"got {ctx.info(1)}")
    if ctx.value_of(1) is None:
        raise popart_exception(
            f"For CumSum op {ctx.op}, the axis tensor {ctx.input_id(1)} does not have data. It is "
            "computed at run time; make it a Constant or an initializer"
        )
    axis = ctx.constant_ints(1, "axis")
    ctx.axis(axis[0], len(x.dims))
    return [x]
