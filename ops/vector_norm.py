"""Translators of norms, of distances, and of clipping by a norm."""

from __future__ import annotations

import math

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.reduce import axes_of
from paddle_ipu.ops.registry import translator


def _largest(context: TranslationContext, x: str, builder: str, axes: list[int], keep: int) -> str:
    """The largest or smallest ``|x|``.

    As in Paddle each of several equal ones gets the whole gradient; PopART's reduction splits it.
    """
    size = context.onnx.abs([x])
    extreme = getattr(context.onnx, builder)
    value = context.graphcore.detach([extreme([size], axes, keep)])
    reached = context.onnx.equal([size, context.graphcore.detach([extreme([size], axes, 1)])])
    finite = context.onnx.logical_not([context.onnx.isinf([size])])
    # Zero in value; its derivative is that of |x|.
    step = context.onnx.sub([size, context.graphcore.detach([size])])
    chosen = context.onnx.logical_and([reached, finite])
    steps = context.onnx.where([chosen, step, context.const_like(0.0, x)])
    return context.onnx.add([value, context.onnx.reducesum([steps], axes, keep)])


def _norm(context: TranslationContext, x: str, order: float, axes: list[int], keep: int) -> str:
    """The norm of `order` over `axes`, with Paddle's derivative at 0."""
    if order == 0.0:
        # The derivative of Sign is 0, and so is that of the count in Paddle. NaN is not 0.
        one = context.const_like(1.0, x)
        numbers = context.onnx.where([context.onnx.isnan([x]), one, x])
        counted = context.onnx.abs([context.onnx.sign([numbers])])
        return context.onnx.reducesum([counted], axes, keep)
    has_none = any(context.shape(x)[axis] == 0 for axis in axes)
    if order == 1.0 or (math.isinf(order) and has_none):
        # No elements have no maximum; Paddle's norm of them is 0.
        return context.onnx.reducel1([x], axes, keep)
    if order == 2.0:
        return context.onnx.reducel2([x], axes, keep)
    if math.isinf(order):
        builder = "reducemax" if order > 0 else "reducemin"
        return _largest(context, x, builder, axes, keep)
    powers = context.onnx.pow([context.onnx.abs([x]), context.const_like(order, x)])
    total = context.onnx.reducesum([powers], axes, keep)
    zero = context.const_like(0.0, x)
    is_zero = context.onnx.equal([total, zero])
    # The derivative at 0 is 0; that of 0 ** (1 / p) would be infinite.
    safe = context.onnx.where([is_zero, context.const_like(1.0, x), total])
    root = context.onnx.pow([safe, context.const_like(1.0 / order, x)])
    return context.onnx.where([is_zero, zero, root])


_NORM = (
    "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceSum", "Abs", "Sign", "Pow", "Equal",
    "Where", "Not", "And", "IsInf", "IsNaN", "Sub", "Add", "graphcore.Detach",
)  # fmt: skip


@translator("p_norm", emits=_NORM)
def p_norm(context: TranslationContext) -> str:
    """``sum(|x| ** p) ** (1 / p)`` along an axis, or of all elements with ``asvector``.

    It is the largest ``|x|`` for p = inf, the smallest for p = -inf, and the number of elements
    that are not 0 for p = 0.
    """
    x = context.input("x")
    rank = context.rank(x)
    whole = bool(context.attr("asvector", 0)) or rank == 0
    axes = list(range(rank)) if whole else [int(context.attr("axis", -1)) % rank]
    order = float(context.attr("porder", 2.0))
    return _norm(context, x, order, axes, int(context.attr("keepdim", 0)))


@translator("dist", emits=_NORM)
def dist(context: TranslationContext) -> str:
    """The p-norm of ``x - y``, of all elements."""
    difference = context.onnx.sub([context.input("x"), context.input("y")])
    axes = list(range(context.rank(difference)))
    return _norm(context, difference, float(context.attr("p", 2.0)), axes, 0)


@translator("frobenius_norm", emits=("ReduceL2",), limits="the axes must be constant")
def frobenius_norm(context: TranslationContext) -> str:
    """``sqrt(sum(x * x))`` over axes, or over all of them."""
    x = context.input("x")
    return context.onnx.reducel2([x], axes_of(context, x), int(context.attr("keep_dim", 0)))


@translator("l1_norm", emits=("ReduceL1",))
def l1_norm(context: TranslationContext) -> str:
    """``sum(|x|)`` of all elements."""
    x = context.input("x")
    return context.onnx.reducel1([x], list(range(context.rank(x))), 0)


@translator("squared_l2_norm", emits=("ReduceSumSquare", "Reshape"))
def squared_l2_norm(context: TranslationContext) -> str:
    """``sum(x * x)`` of all elements, with shape [1]."""
    x = context.input("x")
    total = context.onnx.reducesumsquare([x], list(range(context.rank(x))), 0)
    return context.reshape(total, dialect.dims_of(context.node.outputs[0]))


@translator("norm", emits=("ReduceSumSquare", "Add", "Sqrt", "Div", "graphcore.Detach"))
def norm(context: TranslationContext) -> list[str]:
    """``x / sqrt(sum(x * x) + epsilon)`` along an axis; and that root, without gradient."""
    x = context.input("x")
    axis, rank = int(context.attr("axis")), context.rank(x)
    if not -rank <= axis < rank:
        raise context.refuse(f"there is no axis {axis}, x has {rank} of them.")
    total = context.onnx.reducesumsquare([x], [axis % rank], 1)
    epsilon = context.const_like(float(context.attr("epsilon")), x)
    length = context.onnx.sqrt([context.onnx.add([total, epsilon])])
    return [context.onnx.div([x, length]), context.graphcore.detach([length])]


@translator("clip_by_norm", emits=("ReduceL2", "Less", "Equal", "Or", "Div", "Where", "Mul"))
def clip_by_norm(context: TranslationContext) -> str:
    """``x`` scaled down to the L2 norm ``max_norm`` if its norm is larger."""
    x = context.input("x")
    length = context.onnx.reducel2([x], list(range(context.rank(x))), 0)
    limit = context.const_like(float(context.attr("max_norm")), x)
    # A length that is NaN is none of both, and leaves nothing as it is.
    is_within = context.onnx.logical_or(
        [context.onnx.less([length, limit]), context.onnx.equal([length, limit])]
    )
    scaled = context.onnx.div([limit, length])
    return context.onnx.mul(
        [x, context.onnx.where([is_within, context.const_like(1.0, x), scaled])]
    )


@translator(
    "renorm",
    emits=("Abs", "Pow", "ReduceSum", "Greater", "IsNaN", "Or", "Div", "Where", "Mul"),
)
def renorm(context: TranslationContext) -> str:
    """Slices along an axis, each scaled down to the p-norm ``max_norm`` if its norm is larger."""
    x = context.input("x")
    rank, order = context.rank(x), float(context.attr("p"))
    kept = int(context.attr("axis")) % rank
    powers = context.onnx.pow([context.onnx.abs([x]), context.const_like(order, x)])
    others = [axis for axis in range(rank) if axis != kept]
    # Without axes, a ReduceSum has all.
    total = context.onnx.reducesum([powers], others, 1) if others else powers
    one = context.const_like(1.0, x)
    limit = context.const_like(float(context.attr("max_norm")), x)
    root = context.const_like(1.0 / order if order else math.inf, x)
    longer = context.onnx.greater([context.onnx.pow([total, root]), limit])
    # 1 for a slice that stays: the derivative of the root would be infinite at 0. One with NaN
    # stays too, but all of its derivatives are NaN.
    counts = context.onnx.logical_or([longer, context.onnx.isnan([total])])
    measured = context.onnx.where([counts, total, one])
    scaled = context.onnx.div([limit, context.onnx.pow([measured, root])])
    return context.onnx.mul([x, context.onnx.where([longer, scaled, one])])
