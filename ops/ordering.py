"""Translators of cumulative extremes and products, order statistics and binary search."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator


def _only(context: TranslationContext, x: str) -> list[str]:
    """A tensor of rank 0 and the index 0."""
    return [context.onnx.identity([x]), context.const(0, "int32")]


def _running(paddle_name: str, op_type: str) -> None:
    """Registers cummax or cummin: the running extreme along an axis and its index."""

    @translator(paddle_name, emits=(f"paddle_ipu.{op_type}", "Identity"))
    def translate(context: TranslationContext) -> list[str]:
        x = context.input("x")
        if not context.shape(x):
            return _only(context, x)
        return context.extension(op_type, [x], {"axis": int(context.attr("axis", -1))}, 2)


_running("cummax", "CumMax")
_running("cummin", "CumMin")


@translator("cumprod", emits=("paddle_ipu.CumProd", "Identity"))
def cumprod(context: TranslationContext) -> str:
    """The cumulative product along an axis; with ``exclusive`` without the element itself."""
    x = context.input("x")
    if not context.shape(x):
        return context.onnx.identity([x])
    attributes = {
        "axis": int(context.attr("dim")),
        "exclusive": int(context.attr("exclusive", 0)),
        "reverse": int(context.attr("reverse", 0)),
    }
    return context.extension("CumProd", [x], attributes)[0]


@translator("logcumsumexp", emits=("paddle_ipu.LogCumSumExp", "Reshape", "Identity"))
def logcumsumexp(context: TranslationContext) -> str:
    """``log(cumsum(exp(x)))`` along an axis."""
    x, axis = context.input("x"), int(context.attr("axis", -1))
    if context.attr("flatten", 0):
        x, axis = context.reshape(x, [-1]), 0
    if product(context.shape(x)) == 1:
        # As Paddle's kernel: exclusive too.
        return context.onnx.identity([x])
    attributes = {
        "axis": axis,
        "exclusive": int(context.attr("exclusive", 0)),
        "reverse": int(context.attr("reverse", 0)),
    }
    return context.extension("LogCumSumExp", [x], attributes)[0]


def _declare_indices(context: TranslationContext) -> None:
    """Declares the indices as int64; ProgramDescs of Paddle 2 give them the operand's dtype."""
    context.node.outputs[1].dtype = ir.DataType.INT64


def _without(context: TranslationContext, tensor: str, shape: list[int], axis: int) -> str:
    """The tensor without axis `axis`, or with it as 1 with ``keepdim``."""
    ones = [1] if context.attr("keepdim", 0) else []
    return context.reshape(tensor, [*shape[:axis], *ones, *shape[axis + 1 :]])


@translator("kthvalue", emits=("graphcore.Sort", "Slice", "Reshape", "Identity"))
def kthvalue(context: TranslationContext) -> list[str]:
    """The k-th smallest element along an axis, k from 1, and its index."""
    x = context.input("x")
    shape = context.shape(x)
    _declare_indices(context)
    if not shape:
        return _only(context, x)
    axis, place = int(context.attr("axis", -1)) % len(shape), int(context.attr("k", 1)) - 1
    if not 0 <= place < shape[axis]:
        raise context.refuse(f"axis {axis} has {shape[axis]} elements, and k is {place + 1}.")
    ordered = context.graphcore.sort([x], axis, 0, 1)
    return [
        _without(context, context.slice(part, axis, place, place + 1), shape, axis)
        for part in ordered
    ]


@translator("mode", emits=("paddle_ipu.Mode", "Transpose", "Reshape", "Identity"))
def mode(context: TranslationContext) -> list[str]:
    """The most frequent element along an axis and its last index; of several the smallest."""
    x = context.input("x")
    shape = context.shape(x)
    _declare_indices(context)
    if not shape:
        return _only(context, x)
    axis = int(context.attr("axis", -1)) % len(shape)
    if not shape[axis]:
        raise context.refuse(f"axis {axis} has no elements, and so none that is most frequent.")
    results = context.extension("Mode", [context.axis_last(x, axis)], num_outputs=2)
    return [_without(context, part, shape, axis) for part in results]


@translator("searchsorted", emits=("paddle_ipu.SearchSorted",))
def searchsorted(context: TranslationContext) -> str:
    """The index at which each value keeps a sorted axis sorted; after equal ones with ``right``."""
    pair = [context.input("sorted_sequence"), context.input("values")]
    attributes = {"right": int(context.attr("right", 0))}
    return context.extension("SearchSorted", pair, attributes)[0]
