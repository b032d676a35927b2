"""Translators of special functions: gamma, Bessel, error functions and others."""

from __future__ import annotations

import math

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _unary(paddle_name: str, op_type: str) -> None:
    """Registers a function that an operator of ``ai.paddle_ipu`` computes."""

    @translator(paddle_name, emits=(f"paddle_ipu.{op_type}",))
    def translate(context: TranslationContext) -> str:
        return context.extension(op_type, [context.input("x")])[0]


for _paddle_name, _op_type in (
    ("digamma", "Digamma"),
    ("erfinv", "ErfInv"),
    ("gammaln", "Lgamma"),
    ("i0", "BesselI0"),
    ("i0e", "BesselI0e"),
    ("i1", "BesselI1"),
    ("i1e", "BesselI1e"),
    ("lgamma", "Lgamma"),
):
    _unary(_paddle_name, _op_type)


@translator("polygamma", emits=("paddle_ipu.Polygamma",))
def polygamma(context: TranslationContext) -> str:
    """The n-th derivative of the digamma function."""
    order = int(context.attr("n"))
    if order < 0:
        raise context.refuse(f"n is {order}; a derivative has an order of 0 or more.")
    return context.extension("Polygamma", [context.input("x")], {"n": order})[0]


@translator("gammaincc", emits=("paddle_ipu.Gammaincc",))
def gammaincc(context: TranslationContext) -> str:
    """The regularised upper incomplete gamma function ``Q(x, y)``; x has no gradient."""
    return context.extension("Gammaincc", [context.input("x"), context.input("y")])[0]


@translator("nextafter", emits=("paddle_ipu.NextAfter",))
def nextafter(context: TranslationContext) -> str:
    """The next representable number after ``x`` towards ``y``."""
    return context.extension("NextAfter", [context.input("x"), context.input("y")])[0]


@translator("copysign", emits=("paddle_ipu.CopySign", "Identity"))
def copysign(context: TranslationContext) -> str:
    """``|x|`` with the sign of ``y``, also of a negative zero; booleans stay as they are."""
    if context.output_dtype() == "bool":
        return context.onnx.identity([context.input("x")])
    x, y = (context.cast(context.input(name), context.output_dtype()) for name in "xy")
    return context.extension("CopySign", [x, y])[0]


@translator("heaviside", emits=("Equal", "Greater", "Sign", "Where"))
def heaviside(context: TranslationContext) -> str:
    """0 where ``x`` is negative, 1 where positive, ``y`` where it is 0."""
    x, y = context.input("x"), context.input("y")
    zero = context.const_like(0, x)
    # Sign is 1 there, and has the zero gradient that Paddle gives x.
    step = context.onnx.where([context.onnx.greater([x, zero]), context.onnx.sign([x]), zero])
    return context.onnx.where([context.onnx.equal([x, zero]), y, step])


@translator("angle", emits=("Less", "IsNaN", "Where"))
def angle(context: TranslationContext) -> str:
    """The angle of a real number: pi if negative, else 0; NaN stays NaN."""
    x = context.input("x")
    zero = context.const_like(0.0, x)
    negative = context.onnx.less([x, zero])
    result = context.onnx.where([negative, context.const_like(math.pi, x), zero])
    return context.onnx.where([context.onnx.isnan([x]), x, result])


@translator("logit", emits=("Clip", "Sub", "Log", "Less", "Greater", "Or", "Where", "Mul"))
def logit(context: TranslationContext) -> str:
    """``log(x / (1 - x))``, x clipped to [eps, 1 - eps]; with ``eps`` 0 NaN outside [0, 1]."""
    x, eps = context.input("x"), float(context.attr("eps", 1e-6))
    one = context.const_like(1.0, x)
    inside = x
    if eps:
        # Above one half, the lower bound is the one that counts.
        bounds = [context.const_like(bound, x) for bound in (eps, max(eps, 1.0 - eps))]
        inside = context.onnx.clip([x, *bounds])
    # Not the logarithm of a quotient, whose slope at its ends is 0 times infinity.
    parts = [context.onnx.log([part]) for part in (inside, context.onnx.sub([one, inside]))]
    result = context.onnx.sub(parts)
    if eps:
        return result
    outside = context.onnx.logical_or(
        [context.onnx.less([x, context.const_like(0.0, x)]), context.onnx.greater([x, one])]
    )
    # Not a constant: its derivative is NaN, too, which Where keeps from the elements inside.
    only = context.onnx.where([outside, x, context.const_like(0.0, x)])
    nothing = context.onnx.mul([only, context.const_like(math.nan, x)])
    return context.onnx.where([outside, nothing, result])


def _paddle_dtype(context: TranslationContext) -> str:
    return dialect.dtype_name(context.node.outputs[0])


def _shift(paddle_name: str, op_type: str) -> None:
    """Registers a shift, arithmetic or logical."""

    @translator(
        paddle_name,
        emits=(f"paddle_ipu.{op_type}",),
        limits="not int64 where it has 32 bits: on the hardware",
    )
    def translate(context: TranslationContext) -> str:
        if _paddle_dtype(context) == "int64" and not context.in_64_bits:
            raise context.refuse(
                "int64 is shifted in the device's 32 bits, which gives other numbers; cast to "
                "int32 first."
            )
        pair = [context.input("x"), context.input("y")]
        attributes = {"arithmetic": int(context.attr("is_arithmetic", 1))}
        return context.extension(op_type, pair, attributes)[0]


_shift("bitwise_left_shift", "LeftShift")
_shift("bitwise_right_shift", "RightShift")
