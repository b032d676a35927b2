"""Reductions and searches along axes."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _axes(context: TranslationContext, tensor: str, name: str) -> list[int]:
    """The axes to reduce, not negative; all of them where Paddle names none."""
    rank = context.rank(tensor)
    axes = context.ints(name) if context.has(name) else list(context.attr(name, ()))
    if not axes or context.attr("reduce_all", 0):
        return list(range(rank))
    return sorted(axis % rank for axis in axes)


def _reduce(paddle_name: str, builder_name: str, op_type: str, axes: str, keep: str) -> None:
    # Only a sum changes the dtype: that of booleans and small integers.
    casts = " Cast" if paddle_name == "sum" else ""

    @translator(paddle_name, emits=f"{op_type} Identity{casts}")
    def translate(context: TranslationContext) -> str:
        x = context.cast(context.input("x"), context.output_dtype())
        dims = _axes(context, x, axes)
        if not dims:
            return str(context.onnx.identity([x]))
        return str(getattr(context.onnx, builder_name)([x], dims, int(context.attr(keep, 0))))


_reduce("sum", "reducesum", "ReduceSum", "axis", "keepdim")
_reduce("mean", "reducemean", "ReduceMean", "axis", "keepdim")
_reduce("max", "reducemax", "ReduceMax", "axis", "keepdim")
_reduce("min", "reducemin", "ReduceMin", "axis", "keepdim")
_reduce("prod", "reduceprod", "ReduceProd", "axis", "keepdim")
# amax and amin differ from max and min in name only: both share the gradient between ties.
_reduce("amax", "reducemax", "ReduceMax", "axis", "keepdim")
_reduce("amin", "reducemin", "ReduceMin", "axis", "keepdim")
_reduce("logsumexp", "reducelogsumexp", "ReduceLogSumExp", "axis", "keepdim")


@translator("mean_all", emits="ReduceMean")
def mean_all(context: TranslationContext) -> str:
    """The mean of all elements."""
    x = context.input("x")
    return str(context.onnx.reducemean([x], list(range(context.rank(x))), 0))


def _arg(paddle_name: str, builder_name: str, op_type: str) -> None:
    @translator(paddle_name, emits=f"{op_type} Reshape Cast")
    def translate(context: TranslationContext) -> str:
        x = context.input("x")
        keep = bool(context.attr("keepdims", 0))
        shape = context.shape(x)
        if context.attr("flatten", 0):
            flat = context.reshape(x, [-1])
            found = str(getattr(context.onnx, builder_name)([flat], 0, 0))
            found = context.reshape(found, [1] * len(shape)) if keep else found
        else:
            axis = context.ints("axis")[0] % max(len(shape), 1)
            found = str(getattr(context.onnx, builder_name)([x], axis, int(keep)))
        return context.cast(found, context.output_dtype())


_arg("argmax", "argmax", "ArgMax")
_arg("argmin", "argmin", "ArgMin")


@translator("topk", emits="TopK Cast")
def topk(context: TranslationContext) -> list[str]:
    """The k largest or smallest elements along an axis and their indices."""
    x = context.input("x")
    axis = int(context.attr("axis", -1)) % context.rank(x)
    count = context.shape_const([context.ints("k")[0]])
    values, indices = context.onnx.topk(
        [x, count], axis, int(context.attr("largest", 1)), int(context.attr("sorted", 1))
    )
    return [str(values), context.cast(str(indices), context.output_dtype(1))]


@translator("cumsum", emits="CumSum Reshape", limits="the axis must be constant")
def cumsum(context: TranslationContext) -> str:
    """The running sum along an axis, or over the flattened tensor."""
    x = context.input("x")
    axis = context.ints("axis")[0]
    if context.attr("flatten", 0):
        x, axis = context.reshape(x, [-1]), 0
    index = context.const(axis % context.rank(x), "int32")
    return str(
        context.onnx.cumsum(
            [x, index], int(context.attr("exclusive", 0)), int(context.attr("reverse", 0))
        )
    )


def _quantifier(paddle_name: str, builder_name: str, op_type: str) -> None:
    @translator(paddle_name, emits=f"Cast {op_type}")
    def translate(context: TranslationContext) -> str:
        x = context.cast(context.cast(context.input("x"), "bool"), "int32")
        dims = _axes(context, x, "axis")
        if dims:
            keep = int(context.attr("keepdim", 0))
            x = str(getattr(context.onnx, builder_name)([x], dims, keep))
        return context.cast(x, "bool")


_quantifier("any", "reducemax", "ReduceMax")
_quantifier("all", "reducemin", "ReduceMin")


@translator("argsort", emits="graphcore.Sort")
def argsort(context: TranslationContext) -> list[str]:
    """The elements in order along an axis, and where they stood."""
    x = context.input("x")
    axis = int(context.attr("axis", -1)) % context.rank(x)
    descending, stable = int(context.attr("descending", 0)), int(context.attr("stable", 0))
    values, indices = context.graphcore.sort([x], axis, descending, stable)
    return [str(values), context.cast(str(indices), context.output_dtype(1))]
