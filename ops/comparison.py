"""Comparisons, logic and choice."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _common(context: TranslationContext) -> tuple[str, str]:
    x, y = context.input("x"), context.input("y")
    if context.dtype(x) != context.dtype(y):
        y = context.cast(y, context.dtype(x))
    return x, y


@translator("equal", emits="Equal")
def equal(context: TranslationContext) -> str:
    """``x == y``."""
    return str(context.onnx.equal(list(_common(context))))


@translator("not_equal", emits="Equal Not")
def not_equal(context: TranslationContext) -> str:
    """``x != y``; True where either is NaN."""
    return str(context.onnx.logical_not([context.onnx.equal(list(_common(context)))]))


@translator("less_than", emits="Less")
def less_than(context: TranslationContext) -> str:
    """``x < y``."""
    return str(context.onnx.less(list(_common(context))))


@translator("greater_than", emits="Greater")
def greater_than(context: TranslationContext) -> str:
    """``x > y``."""
    return str(context.onnx.greater(list(_common(context))))


@translator("less_equal", emits="Less Equal Or")
def less_equal(context: TranslationContext) -> str:
    """``x <= y``; False where either is NaN."""
    pair = list(_common(context))
    return str(context.onnx.logical_or([context.onnx.less(pair), context.onnx.equal(pair)]))


@translator("greater_equal", emits="Greater Equal Or")
def greater_equal(context: TranslationContext) -> str:
    """``x >= y``; False where either is NaN."""
    pair = list(_common(context))
    return str(context.onnx.logical_or([context.onnx.greater(pair), context.onnx.equal(pair)]))


def _as_bool(context: TranslationContext, name: str) -> str:
    return context.cast(context.input(name), "bool")


@translator("logical_and", emits="And Cast")
def logical_and(context: TranslationContext) -> str:
    """Logical and of what is not zero."""
    return str(context.onnx.logical_and([_as_bool(context, "x"), _as_bool(context, "y")]))


@translator("logical_or", emits="Or Cast")
def logical_or(context: TranslationContext) -> str:
    """Logical or of what is not zero."""
    return str(context.onnx.logical_or([_as_bool(context, "x"), _as_bool(context, "y")]))


@translator("logical_not", emits="Not Cast")
def logical_not(context: TranslationContext) -> str:
    """True where x is zero."""
    return str(context.onnx.logical_not([_as_bool(context, "x")]))


@translator("where", emits="Where")
def where(context: TranslationContext) -> str:
    """``x`` where the condition holds, ``y`` elsewhere."""
    return str(
        context.onnx.where([context.input("condition"), context.input("x"), context.input("y")])
    )
