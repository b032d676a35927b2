"""Inference of elementwise operators: unary, broadcasting, comparing, casting."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def _broadcast_all(ctx: InferenceContext, count: int) -> tuple[int, ...]:
    dims = ctx.info(0).dims
    for index in range(1, count):
        dims = ctx.broadcast(dims, ctx.info(index).dims)
    return dims


def _one_type(ctx: InferenceContext) -> ir.DataType:
    left, right = ctx.info(0), ctx.info(1)
    if left.dtype == right.dtype:
        return left.dtype
    raise popart_exception(
        f"np broadcasting failed on {ctx.op}, incompatible types {left.dtype.name} and "
        f"{right.dtype.name} (shapes {shape_string(left.dims)} and {shape_string(right.dims)}). "
        f"The operator has {ctx.of_two_types(0, 1)}."
    )


def binary(ctx: InferenceContext) -> list[TensorInfo]:
    """Two inputs of one type, broadcast."""
    left, right = ctx.info(0), ctx.info(1)
    dtype = _one_type(ctx)
    if left.dims == right.dims:
        return [left]
    return [TensorInfo.of(dtype, ctx.broadcast(left.dims, right.dims))]


def multiply(ctx: InferenceContext) -> list[TensorInfo]:
    """Like `binary`; a FLOAT of one element also multiplies a FLOAT16, which the product is."""
    infos = ctx.info(0), ctx.info(1)
    scalars = [info.dtype == ir.DataType.FLOAT and info.nelms() == 1 for info in infos]
    halves = [info.dtype == ir.DataType.FLOAT16 for info in infos]
    if any(scalars) and any(halves):
        dims = ctx.broadcast(infos[0].dims, infos[1].dims)
        return [TensorInfo.of(ir.DataType.FLOAT16, dims)]
    return binary(ctx)


def _on_axis(ctx: InferenceContext) -> tuple[int, ...]:
    """The first input's shape; with `broadcast` the second's lies in it, from `axis` on."""
    left, right, axis = ctx.info(0).dims, ctx.info(1).dims, ctx.attributes.get("axis")
    if left == right:
        return left
    if not ctx.attributes.get("broadcast"):
        raise ctx.error(
            f"takes inputs of one shape unless 'broadcast' is 1, got {list(left)} and {list(right)}"
        )
    start = len(left) - len(right) if axis is None else ctx.axis(axis, len(left), inclusive=True)
    part = left[start : start + len(right)] if start >= 0 else ()
    fits = len(part) == len(right) and all(b in (1, a) for a, b in zip(part, right, strict=True))
    if not fits:
        raise ctx.error(f"cannot lay {list(right)} into {list(left)} at axis {start}")
    return left


def binary_on_axis(ctx: InferenceContext) -> list[TensorInfo]:
    """Two inputs of one type; the second broadcasts as opset 6 has it."""
    return [TensorInfo.of(ctx.same_dtype(0, 1), _on_axis(ctx))]


def comparison_on_axis(ctx: InferenceContext) -> list[TensorInfo]:
    """Two inputs of one type to booleans; the second broadcasts as opset 6 has it."""
    ctx.same_dtype(0, 1)
    return [TensorInfo.of(ir.DataType.BOOL, _on_axis(ctx))]


def variadic_of_one_shape(ctx: InferenceContext) -> list[TensorInfo]:
    """Any number of inputs of one type and shape (Sum, Max, Min, Mean of opset 6)."""
    dims = ctx.info(0).dims
    for index in range(1, len(ctx.inputs)):
        if ctx.info(index).dims != dims:
            raise popart_exception(
                f"Inputs to {ctx.identifier} do not all the same type & shape, with opid.version = "
                f"6. {ctx.op} got {shape_string(dims)} and {shape_string(ctx.info(index).dims)}; "
                "from opset 8 on they broadcast."
            )
    return variadic(ctx)


def variadic(ctx: InferenceContext) -> list[TensorInfo]:
    """Any number of inputs of one type, broadcast (Sum, Max, Min, Mean)."""
    count = len(ctx.inputs)
    return [TensorInfo.of(ctx.same_dtype(*range(count)), _broadcast_all(ctx, count))]


def comparison(ctx: InferenceContext) -> list[TensorInfo]:
    """Two inputs of one type, broadcast to booleans."""
    _one_type(ctx)
    return [TensorInfo.of(ir.DataType.BOOL, _broadcast_all(ctx, 2))]


def test(ctx: InferenceContext) -> list[TensorInfo]:
    """A boolean for each element."""
    return [TensorInfo.of(ir.DataType.BOOL, ctx.info(0).dims)]


def where(ctx: InferenceContext) -> list[TensorInfo]:
    """(condition, x, y), all broadcast, of x's type."""
    return [TensorInfo.of(ctx.same_dtype(1, 2), _broadcast_all(ctx, 3))]


def prelu(ctx: InferenceContext) -> list[TensorInfo]:
    """(x, slope): the slope broadcasts to x."""
    ctx.same_dtype(0, 1)
    x, slope = ctx.info(0), ctx.info(1)
    if ctx.broadcast(x.dims, slope.dims) != x.dims:
        raise ctx.error(f"the slope {slope} does not broadcast to {x}")
    return [x]


def clip(ctx: InferenceContext) -> list[TensorInfo]:
    """(x, min, max): the bounds are scalars of x's type, or floats of another width."""
    x = ctx.info(0)
    for index in (1, 2):
        if not ctx.has(index):
            continue
        bound = ctx.info(index)
        if not (x.dtype.is_floating_point() and bound.dtype.is_floating_point()):
            ctx.same_dtype(0, index)
        if bound.nelms() != 1:
            raise ctx.error(f"the bound '{ctx.input_id(index)}' must be a scalar, got {bound}")
    return [ctx.info(0)]


def cast(ctx: InferenceContext) -> list[TensorInfo]:
    """The input's shape, the type of attribute `to`."""
    return [TensorInfo.of(ir.DataType(ctx.attributes["to"]), ctx.info(0).dims)]


def _check_ratio(ctx: InferenceContext) -> None:
    ratio = ctx.attributes["ratio"]
    if not 0 <= ratio < 1:
        # PopART's operator line comes without its inputs here.
        raise ctx.error(
            f"ratio value {ratio} is not valid. Please use a value in the interval [0,1)"
        )


def _fits_into(dims: tuple[int, ...], around: tuple[int, ...]) -> bool:
    """Whether a tensor broadcasts to a shape, which it leaves as it is."""
    pairs = zip(reversed(dims), reversed(around), strict=False)
    return len(dims) <= len(around) and all(a in (1, b) for a, b in pairs)


def shaped_dropout(ctx: InferenceContext) -> list[TensorInfo]:
    """The output; the attribute `shape`, that of the mask, broadcasts to the input's."""
    _check_ratio(ctx)
    x, shape = ctx.info(0), tuple(ctx.attributes["shape"])
    if not _fits_into(shape, x.dims):
        raise popart_exception(
            "ShapedDropout: incompatible input tensor and dropout shape. "
            f"{ctx.identifier} is configured with shape {shape_string(shape)} which is not "
            f"broadcastable to the input tensor with shape {shape_string(x.dims)}."
        )
    return [x]


def dropout(ctx: InferenceContext) -> list[TensorInfo]:
    """The output and, when asked for, the boolean mask."""
    _check_ratio(ctx)
    x = ctx.info(0)
    return [x, TensorInfo.of(ir.DataType.BOOL, x.dims)][: ctx.num_outputs]
