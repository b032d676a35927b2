"""Translators of variances, medians, histograms and counts."""

from __future__ import annotations

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.reduce import axes_of
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


def _variance(context: TranslationContext, correction: float) -> str:
    """``sum((x - mean) ** 2) / (n - correction)``; the divisor is 0 at least."""
    x = context.input("x")
    shape = context.shape(x)
    axes = axes_of(context, x)
    centred = context.onnx.sub([x, context.onnx.reducemean([x], axes, 1)])
    total = context.onnx.reducesumsquare([centred], axes, int(context.attr("keepdim", 0)))
    counted = max(product([shape[axis] for axis in axes]) - correction, 0.0)
    return context.onnx.div([total, context.const_like(counted, x)])


@translator("var", emits=("ReduceMean", "Sub", "ReduceSumSquare", "Div"))
def var(context: TranslationContext) -> str:
    """The variance, with the divisor ``n - correction``.

    The attribute ``unbiased`` is not read: Paddle's kernel does not read it.
    """
    return _variance(context, float(context.attr("correction", 1.0)))


@translator("variance", emits=("ReduceMean", "Sub", "ReduceSumSquare", "Div"))
def variance(context: TranslationContext) -> str:
    """The population variance."""
    return _variance(context, 0.0)


@translator("std", emits=("ReduceMean", "Sub", "ReduceSumSquare", "Div", "Equal", "Where", "Sqrt"))
def std(context: TranslationContext) -> str:
    """The standard deviation, with the divisor ``n - correction``.

    Where it is 0, so is its derivative.
    """
    variance_of = _variance(context, float(context.attr("correction", 1.0)))
    # The slope of Sqrt at 0 is infinite.
    zero = context.const_like(0.0, variance_of)
    is_zero = context.onnx.equal([variance_of, zero])
    inside = context.onnx.where([is_zero, context.const_like(1.0, variance_of), variance_of])
    return context.onnx.where([is_zero, zero, context.onnx.sqrt([inside])])


@translator("nansum", emits=("IsNaN", "Where", "ReduceSum"))
def nansum(context: TranslationContext) -> str:
    """The sum of the elements that are not NaN."""
    x = context.input("x")
    known = context.onnx.where([context.onnx.isnan([x]), context.const_like(0.0, x), x])
    axes = axes_of(context, x)
    return context.onnx.reducesum([known], axes, int(context.attr("keepdim", 0)))


def _median(paddle_name: str, ignore_nan: int) -> None:
    """Registers median or nanmedian: the median over axes, and its index.

    With ``mode`` avg the mean of the two middle elements, otherwise the smaller of them.
    """

    @translator(paddle_name, emits=("paddle_ipu.Median", "Transpose", "Reshape"))
    def translate(context: TranslationContext) -> list[str]:
        x = context.input("x")
        shape = context.shape(x)
        axes = axes_of(context, x)
        rest = [axis for axis in range(len(shape)) if axis not in axes]
        order = [*rest, *axes]
        transposed = context.transpose(x, order)
        rows = [shape[axis] for axis in rest]
        if 0 in shape:
            return _median_of_none(context, x, axes)
        rows_of = context.reshape(transposed, [*rows, product([shape[axis] for axis in axes])])
        average = int(str(context.attr("mode", "avg")) == "avg")
        attributes = {"ignore_nan": ignore_nan, "average": average}
        medians, places = context.extension("Median", [rows_of], attributes, 2)
        kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
        dims = kept if context.attr("keepdim", 1) else rows
        return [
            context.reshape(medians, dims),
            places if average else context.reshape(places, dims),
        ]


def _median_of_none(context: TranslationContext, x: str, axes: list[int]) -> list[str]:
    """The median of no elements: NaN; of integers only where the result is empty too."""
    shape, keep = context.shape(x), context.attr("keepdim", 1)
    left = [1 if at in axes else size for at, size in enumerate(shape) if keep or at not in axes]
    dtype = context.output_dtype()
    if not dtype.startswith(("float", "bfloat")) and product(left):
        raise context.refuse(
            f"a tensor of shape {shape} has no median over an axis of no elements, and its "
            f"{dtype} cannot be NaN. Leave it out for such shapes."
        )
    nan = np.full(left, np.nan) if product(left) else np.zeros(left)
    average = str(context.attr("mode", "avg")) == "avg"
    places = np.zeros((*left, 2) if average else left, np.int64)
    return [context.const(nan, dtype), context.const(places)]


_median("median", 0)
_median("nanmedian", 1)


@translator("histogram", emits=("paddle_ipu.Histogram",))
def histogram(context: TranslationContext) -> str:
    """The number of elements, or the sum of their weights, in each bin."""
    if 0 in context.shape(context.input("input")):
        # Paddle's kernel writes it in its operand's dtype.
        written_as(context, 0, dialect.dtype_name(context.values("input")[0]))
        bins = int(context.attr("bins", 100))
        dialect.check_constant(context.node, [bins])
        return context.const(np.zeros(bins), context.output_dtype())
    operands = [context.input("input")]
    if context.has("weight"):
        operands.append(context.input("weight"))
    attributes = {
        "bins": int(context.attr("bins", 100)),
        "min": float(context.attr("min", 0.0)),
        "max": float(context.attr("max", 0.0)),
        "density": int(context.attr("density", 0)),
    }
    return context.extension("Histogram", operands, attributes)[0]


@translator("bincount", emits=(), limits="of constants only")
def bincount(context: TranslationContext) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """How often each integer occurs, or the sum of its weights."""
    if not context.is_constant("x") or not context.is_constant("weights"):
        raise context.refuse(
            "its result is as long as the largest number at run time, and an IPU program has "
            "static shapes. Use paddle.histogram with as many bins as there are numbers, between "
            "-0.5 and the largest plus 0.5."
        )
    weights = context.static("weights") if context.has("weights") else None
    least = int(context.number("minlength", 0))
    dialect.check_constant(context.node, [least])
    counts = np.bincount(context.static("x"), weights, least)
    return counts.astype(dialect.dtype_name(context.node.outputs[0]))


@translator("number_count", emits=("Reshape", "Equal", "Cast", "ReduceSum"))
def number_count(context: TranslationContext) -> str:
    """How often each integer below ``upper_range`` occurs."""
    numbers = context.reshape(context.input("numbers"), [-1, 1])
    upper = int(context.attr("upper_range"))
    dialect.check_constant(context.node, [upper])
    known = context.const(np.arange(upper), context.dtype(numbers))
    same = context.cast(context.onnx.equal([numbers, known]), "int32")
    return context.onnx.reducesum([same], [0], 0)
