"""Translators of reductions, searches and cumulative sums along axes."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


def axes_of(context: TranslationContext, tensor: str, name: str = "axis") -> list[int]:
    """The axes to reduce, sorted and not negative; all of them if Paddle names none.

    Args:
        context: of the node.
        tensor: the operand that is reduced.
        name: the operand or attribute that has the axes.
    """
    rank = context.rank(tensor)
    axes = context.ints(name)
    if not axes or context.attr("reduce_all", 0):
        return list(range(rank))
    # Paddle accepts an axis for rank 0, which has none.
    return sorted(axis % rank for axis in axes) if rank else []


def _left(context: TranslationContext, x: str, dims: list[int], keep: int) -> list[int]:
    """The shape after a reduction over `dims`; with `keep` they stay with size 1."""
    shape = enumerate(context.shape(x))
    return [1 if at in dims else size for at, size in shape if keep or at not in dims]


def _check_any(context: TranslationContext, x: str, dims: list[int], what: str) -> None:
    """Raises if elements of the result would be reductions of no elements."""
    if 0 in context.shape(x) and product(_left(context, x, dims, 0)):
        raise context.refuse(
            f"a tensor of shape {context.shape(x)} has no {what} over an axis of no elements; "
            "Paddle refuses it, or gives what happens to be in memory. Leave it out for such "
            "shapes."
        )


def _reduce(paddle_name: str, builder_name: str, op_type: str, axes: str, keep: str) -> None:
    """Registers a reduction that one PopART operator computes."""
    # A sum widens booleans and small integers; a mean of booleans is a boolean.
    casts = {"sum": ("Cast",), "mean": ("Cast", "ReduceMax")}.get(paddle_name, ())

    limits = {
        "logsumexp": "of an infinity infinite, as the limit; Paddle's CPU kernel gives NaN",
    }.get(paddle_name, "")

    @translator(paddle_name, emits=(op_type, "Identity", *casts), limits=limits)
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
    """The mean of booleans, a boolean in Paddle: whether it is not 0; True for no elements."""
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
    """Registers argmax or argmin; the first index of equal elements."""

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
            index = str(getattr(context.onnx, builder_name)([flat], 0, 0))
            # For rank 0 Paddle's keepdims gives shape [1].
            index = context.reshape(index, [1] * max(len(shape), 1)) if keep else index
        else:
            index = str(getattr(context.onnx, builder_name)([x], dims[0], int(keep)))
        return context.cast(index, context.output_dtype())


_arg("argmax", "argmax", "ArgMax")
_arg("argmin", "argmin", "ArgMin")


@translator("topk", emits=("TopK", "Reshape"))
def topk(context: TranslationContext) -> list[str]:
    """The k largest or smallest elements along an axis, and their indices."""
    x, is_number = _with_axis(context)
    axis = int(context.attr("axis", -1)) % context.rank(x)
    count = context.shape_const([context.ints("k")[0]])
    values, indices = context.onnx.topk(
        [x, count], axis, int(context.attr("largest", 1)), int(context.attr("sorted", 1))
    )
    return _ranked(context, values, indices, is_number)


def _with_axis(context: TranslationContext) -> tuple[str, bool]:
    """Operand ``x``, of rank 0 as [1]; and whether its rank is 0."""
    x = context.input("x")
    return (x, False) if context.rank(x) else (context.reshape(x, [1]), True)


def _ranked(context: TranslationContext, values: str, indices: str, is_number: bool) -> list[str]:
    results = [values, context.cast(indices, context.output_dtype(1))]
    return [context.reshape(each, []) for each in results] if is_number else results


@translator("cumsum", emits=("CumSum", "Reshape", "Identity"), limits="the axis must be constant")
def cumsum(context: TranslationContext) -> str:
    """The cumulative sum along an axis, or of the flattened tensor."""
    x = context.input("x")
    axis = context.ints("axis")[0]
    if context.attr("flatten", 0):
        x, axis = context.reshape(x, [-1]), 0
    if product(context.shape(x)) == 1:
        # As Paddle's kernel: exclusive too.
        return context.onnx.identity([x])
    index = context.const(axis % context.rank(x), "int32")
    return context.onnx.cumsum(
        [x, index], int(context.attr("exclusive", 0)), int(context.attr("reverse", 0))
    )


def _quantifier(paddle_name: str, builder_name: str, op_type: str) -> None:
    """Registers any or all, computed as the largest or smallest of 0 and 1."""

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
    """The sorted elements along an axis, and their indices."""
    x, is_number = _with_axis(context)
    axis = int(context.attr("axis", -1)) % context.rank(x)
    descending, stable = int(context.attr("descending", 0)), int(context.attr("stable", 0))
    values, indices = context.graphcore.sort([x], axis, descending, stable)
    return _ranked(context, values, indices, is_number)
