"""Reductions and searches along axes."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


def axes_of(context: TranslationContext, tensor: str, name: str = "axis") -> list[int]:
    """The axes to reduce, not negative; all of them where Paddle names none."""
    rank = context.rank(tensor)
    axes = context.ints(name)
    if not axes or context.attr("reduce_all", 0):
        return list(range(rank))
    # Paddle takes an axis of a single number, which has none.
    return sorted(axis % rank for axis in axes) if rank else []


def _left(context: TranslationContext, x: str, dims: list[int], keep: int) -> list[int]:
    """The shape after a reduction over `dims`."""
    shape = enumerate(context.shape(x))
    return [1 if at in dims else size for at, size in shape if keep or at not in dims]


def _check_any(context: TranslationContext, x: str, dims: list[int], what: str) -> None:
    """Refuses a reduction that has a result, and nothing to make it of."""
    if 0 in context.shape(x) and product(_left(context, x, dims, 0)):
        raise context.refuse(
            f"a tensor of shape {context.shape(x)} has no {what} over an axis of no elements; "
            "Paddle refuses it, or gives what happens to be in memory. Leave it out for such "
            "shapes."
        )


def _reduce(paddle_name: str, builder_name: str, op_type: str, axes: str, keep: str) -> None:
    # A sum changes the dtype of booleans and small integers, a mean calculates with booleans.
    casts = {"sum": ("Cast",), "mean": ("Cast", "ReduceMax")}.get(paddle_name, ())

    @translator(paddle_name, emits=(op_type, "Identity", *casts))
    def translate(context: TranslationContext) -> str:
        x = context.input("x")
        if paddle_name == "mean" and context.dtype(x) == "bool":
            return _mean_of_truths(context, x)
        x = context.cast(x, context.output_dtype())
        dims = axes_of(context, x, axes)
        of_integers = paddle_name == "mean" and not context.is_float(x)
        if of_integers or op_type in ("ReduceMax", "ReduceMin"):
            _check_any(context, x, dims, paddle_name)
        if not dims:
            return context.onnx.identity([x])
        return str(getattr(context.onnx, builder_name)([x], dims, int(context.attr(keep, 0))))


def _mean_of_truths(context: TranslationContext, x: str) -> str:
    """A truth value, as in Paddle: whether the mean is not zero, which that of none is not."""
    dims, keep = axes_of(context, x), int(context.attr("keepdim", 0))
    if 0 in context.shape(x):
        return context.const(np.ones(_left(context, x, dims, keep), bool))
    if not dims:
        return context.onnx.identity([x])
    numbers = context.cast(x, "int32")
    return context.cast(context.onnx.reducemax([numbers], dims, keep), "bool")


_reduce("sum", "reducesum", "ReduceSum", "axis", "keepdim")
_reduce("mean", "reducemean", "ReduceMean", "axis", "keepdim")
_reduce("max", "reducemax", "ReduceMax", "axis", "keepdim")
_reduce("min", "reducemin", "ReduceMin", "axis", "keepdim")
_reduce("prod", "reduceprod", "ReduceProd", "axis", "keepdim")
# amax and amin differ from max and min in name only: both share the gradient between ties.
_reduce("amax", "reducemax", "ReduceMax", "axis", "keepdim")
_reduce("amin", "reducemin", "ReduceMin", "axis", "keepdim")
_reduce("logsumexp", "reducelogsumexp", "ReduceLogSumExp", "axis", "keepdim")


@translator("mean_all", emits=("ReduceMean",))
def mean_all(context: TranslationContext) -> str:
    """The mean of all elements."""
    x = context.input("x")
    return context.onnx.reducemean([x], list(range(context.rank(x))), 0)


def _arg(paddle_name: str, builder_name: str, op_type: str) -> None:
    @translator(paddle_name, emits=(op_type, "Reshape"))
    def translate(context: TranslationContext) -> str:
        x = context.input("x")
        keep = bool(context.attr("keepdims", 0))
        shape = context.shape(x)
        flatten = bool(context.attr("flatten", 0)) or not shape
        dims = list(range(len(shape))) if flatten else [context.ints("axis")[0] % len(shape)]
        _check_any(context, x, dims, paddle_name)
        if 0 in shape:
            return context.const(
                np.zeros(_left(context, x, dims, int(keep))), context.output_dtype()
            )
        if flatten:
            flat = context.reshape(x, [-1])
            found = str(getattr(context.onnx, builder_name)([flat], 0, 0))
            # Of a single number Paddle keeps an axis that it does not have.
            found = context.reshape(found, [1] * max(len(shape), 1)) if keep else found
        else:
            found = str(getattr(context.onnx, builder_name)([x], dims[0], int(keep)))
        return context.cast(found, context.output_dtype())


_arg("argmax", "argmax", "ArgMax")
_arg("argmin", "argmin", "ArgMin")


@translator("topk", emits=("TopK", "Reshape"))
def topk(context: TranslationContext) -> list[str]:
    """The k largest or smallest elements along an axis and their indices."""
    x, is_number = _with_axis(context)
    axis = int(context.attr("axis", -1)) % context.rank(x)
    count = context.shape_const([context.ints("k")[0]])
    values, indices = context.onnx.topk(
        [x, count], axis, int(context.attr("largest", 1)), int(context.attr("sorted", 1))
    )
    return _ranked(context, values, indices, is_number)


def _with_axis(context: TranslationContext) -> tuple[str, bool]:
    """Operand ``x``, with an axis of its own where it is a single number; whether it is one."""
    x = context.input("x")
    return (x, False) if context.rank(x) else (context.reshape(x, [1]), True)


def _ranked(context: TranslationContext, values: str, indices: str, is_number: bool) -> list[str]:
    found = [values, context.cast(indices, context.output_dtype(1))]
    return [context.reshape(each, []) for each in found] if is_number else found


@translator("cumsum", emits=("CumSum", "Reshape"), limits="the axis must be constant")
def cumsum(context: TranslationContext) -> str:
    """The running sum along an axis, or over the flattened tensor."""
    x = context.input("x")
    axis = context.ints("axis")[0]
    if context.attr("flatten", 0):
        x, axis = context.reshape(x, [-1]), 0
    index = context.const(axis % context.rank(x), "int32")
    return context.onnx.cumsum(
        [x, index], int(context.attr("exclusive", 0)), int(context.attr("reverse", 0))
    )


def _quantifier(paddle_name: str, builder_name: str, op_type: str) -> None:
    @translator(paddle_name, emits=("Cast", op_type))
    def translate(context: TranslationContext) -> str:
        # A PIR program declares the operand's dtype.
        written_as(context, 0, "bool")
        x = context.cast(context.cast(context.input("x"), "bool"), "int32")
        dims, keep = axes_of(context, x), int(context.attr("keepdim", 0))
        if 0 in context.shape(x):
            return context.const(np.full(_left(context, x, dims, keep), paddle_name == "all"))
        if dims:
            x = str(getattr(context.onnx, builder_name)([x], dims, keep))
        return context.cast(x, "bool")


_quantifier("any", "reducemax", "ReduceMax")
_quantifier("all", "reducemin", "ReduceMin")


@translator("argsort", emits=("graphcore.Sort", "Reshape"))
def argsort(context: TranslationContext) -> list[str]:
    """The elements in order along an axis, and where they stood."""
    x, is_number = _with_axis(context)
    axis = int(context.attr("axis", -1)) % context.rank(x)
    descending, stable = int(context.attr("descending", 0)), int(context.attr("stable", 0))
    values, indices = context.graphcore.sort([x], axis, descending, stable)
    return _ranked(context, values, indices, is_number)
