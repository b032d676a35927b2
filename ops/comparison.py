"""Translators of comparisons, logic and selection."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _common(context: TranslationContext) -> tuple[str, str]:
    """Operands x and y, y cast to x's dtype."""
    x, y = context.input("x"), context.input("y")
    if context.dtype(x) != context.dtype(y):
        y = context.cast(y, context.dtype(x))
    return x, y


def _ordered(context: TranslationContext) -> list[str]:
    """Operands x and y, booleans as int32: PopART does not order booleans."""
    pair = _common(context)
    if context.dtype(pair[0]) == "bool":
        return [context.cast(side, "int32") for side in pair]
    return list(pair)


@translator("equal", emits=("Equal",))
def equal(context: TranslationContext) -> str:
    """``x == y``."""
    return context.onnx.equal(list(_common(context)))


@translator("not_equal", emits=("Equal", "Not"))
def not_equal(context: TranslationContext) -> str:
    """``x != y``; True where either is NaN."""
    return context.onnx.logical_not([context.onnx.equal(list(_common(context)))])


@translator("less_than", emits=("Less", "Cast"))
def less_than(context: TranslationContext) -> str:
    """``x < y``."""
    return context.onnx.less(_ordered(context))


@translator("greater_than", emits=("Greater", "Cast"))
def greater_than(context: TranslationContext) -> str:
    """``x > y``."""
    return context.onnx.greater(_ordered(context))


@translator("less_equal", emits=("Less", "Equal", "Or", "Cast"))
def less_equal(context: TranslationContext) -> str:
    """``x <= y``, as Less or Equal; False where either is NaN."""
    pair = _ordered(context)
    return context.onnx.logical_or([context.onnx.less(pair), context.onnx.equal(pair)])


@translator("greater_equal", emits=("Greater", "Equal", "Or", "Cast"))
def greater_equal(context: TranslationContext) -> str:
    """``x >= y``, as Greater or Equal; False where either is NaN."""
    pair = _ordered(context)
    return context.onnx.logical_or([context.onnx.greater(pair), context.onnx.equal(pair)])


def _as_bool(context: TranslationContext, name: str) -> str:
    return context.cast(context.input(name), "bool")


@translator("logical_and", emits=("And", "Cast"))
def logical_and(context: TranslationContext) -> str:
    """Logical and; an element that is not zero is true."""
    return context.onnx.logical_and([_as_bool(context, "x"), _as_bool(context, "y")])


@translator("logical_or", emits=("Or", "Cast"))
def logical_or(context: TranslationContext) -> str:
    """Logical or; an element that is not zero is true."""
    return context.onnx.logical_or([_as_bool(context, "x"), _as_bool(context, "y")])


@translator("logical_not", emits=("Not", "Cast"))
def logical_not(context: TranslationContext) -> str:
    """Logical not: True where x is zero."""
    return context.onnx.logical_not([_as_bool(context, "x")])


@translator("where", emits=("Where",))
def where(context: TranslationContext) -> str:
    """``x`` where the condition is true, ``y`` elsewhere."""
    return context.onnx.where([context.input("condition"), context.input("x"), context.input("y")])


@translator("logical_xor", emits=("Equal", "Not", "Cast"))
def logical_xor(context: TranslationContext) -> str:
    """Logical exclusive or; an element that is not zero is true."""
    same = context.onnx.equal([_as_bool(context, "x"), _as_bool(context, "y")])
    return context.onnx.logical_not([same])


def _bitwise(paddle_name: str, of_bools: str, of_integers: str, emits: tuple[str, ...]) -> None:
    """Registers a bitwise operator; of booleans it is the logical one."""

    @translator(paddle_name, emits=emits)
    def translate(context: TranslationContext) -> str:
        tensors = [context.input(name) for name in ("x", "y") if context.has(name)]
        if context.dtype(tensors[0]) == "bool":
            return str(getattr(context.onnx, of_bools)(tensors))
        return str(getattr(context.graphcore, of_integers)(tensors))


_bitwise("bitwise_and", "logical_and", "bitwiseand", ("And", "graphcore.BitwiseAnd"))
_bitwise("bitwise_or", "logical_or", "bitwiseor", ("Or", "graphcore.BitwiseOr"))
_bitwise("bitwise_not", "logical_not", "bitwisenot", ("Not", "graphcore.BitwiseNot"))


@translator("bitwise_xor", emits=("Equal", "Not", "graphcore.BitwiseXor"))
def bitwise_xor(context: TranslationContext) -> str:
    """Bitwise exclusive or; of booleans the logical one."""
    pair = [context.input("x"), context.input("y")]
    if context.dtype(pair[0]) == "bool":
        return context.onnx.logical_not([context.onnx.equal(pair)])
    return context.graphcore.bitwisexor(pair)


def _finite_test(paddle_name: str) -> None:
    """Registers isnan, isinf or isfinite; the answer for integers is a constant."""

    @translator(paddle_name, emits=_FINITE_TESTS[paddle_name])
    def translate(context: TranslationContext) -> str:
        x = context.input("x")
        if not context.is_float(x):
            shape, answer = context.shape(x), paddle_name == "isfinite"
            return context.const(np.full(shape, answer))
        if paddle_name == "isnan":
            return context.onnx.isnan([x])
        if paddle_name == "isinf":
            return context.onnx.isinf([x])
        either = context.onnx.logical_or([context.onnx.isnan([x]), context.onnx.isinf([x])])
        return context.onnx.logical_not([either])


_FINITE_TESTS = {
    "isnan": ("IsNaN",),
    "isinf": ("IsInf",),
    "isfinite": ("IsNaN", "IsInf", "Or", "Not"),
}
for _name in _FINITE_TESTS:
    _finite_test(_name)


def _close(context: TranslationContext) -> str:
    """``|x - y| <= atol + rtol * |y|`` or ``x == y``; with ``equal_nan`` also if both are NaN."""
    x, y = _ordered(context)
    relative, absolute = (context.const_like(context.number(name), x) for name in ("rtol", "atol"))
    distance = context.onnx.abs([context.onnx.sub([x, y])])
    allowed = context.onnx.add([absolute, context.onnx.mul([relative, context.onnx.abs([y])])])
    near = context.onnx.logical_or(
        [context.onnx.less([distance, allowed]), context.onnx.equal([distance, allowed])]
    )
    near = context.onnx.logical_or([near, context.onnx.equal([x, y])])
    if not context.attr("equal_nan", 0):
        return near
    both = context.onnx.logical_and([context.onnx.isnan([x]), context.onnx.isnan([y])])
    return context.onnx.logical_or([near, both])


def _all(context: TranslationContext, truths: str) -> str:
    """Whether every element is true, with rank 0; True of no elements."""
    if 0 in context.shape(truths):
        return context.const(np.asarray(True))
    numbers = context.cast(truths, "int32")
    axes = list(range(context.rank(truths)))
    return context.cast(context.onnx.reducemin([numbers], axes, 0) if axes else numbers, "bool")


_CLOSE = ("Sub", "Abs", "Mul", "Add", "Less", "Equal", "Or", "And", "IsNaN")


@translator("isclose", emits=_CLOSE)
def isclose(context: TranslationContext) -> str:
    """``|x - y| <= atol + rtol * |y|``; equal infinities are close, NaN only with ``equal_nan``."""
    return _close(context)


@translator("allclose", emits=(*_CLOSE, "Cast", "ReduceMin"))
def allclose(context: TranslationContext) -> str:
    """Whether `isclose` holds for every element; rank 0."""
    return _all(context, _close(context))


@translator("equal_all", emits=("Equal", "Cast", "ReduceMin"))
def equal_all(context: TranslationContext) -> str:
    """Whether two tensors have the same shape and the same elements; rank 0."""
    x, y = context.input("x"), context.input("y")
    # A PIR program declares the operands' dtype.
    context.node.outputs[0].dtype = ir.DataType.BOOL
    if context.shape(x) != context.shape(y):
        return context.const(np.asarray(False))
    return _all(context, context.onnx.equal([x, y]))


@translator("masked_fill", emits=("Where",))
def masked_fill(context: TranslationContext) -> str:
    """``value`` where the mask is true, ``x`` elsewhere."""
    x = context.input("x")
    if context.is_constant("value"):
        value = context.const(context.static("value"), context.dtype(x))
    else:
        value = context.input("value")
    return context.onnx.where([context.input("mask"), value, x])
