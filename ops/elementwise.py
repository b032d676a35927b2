"""Elementwise arithmetic with NumPy's broadcasting."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _binary(paddle_name: str, builder_name: str, emits: str) -> None:
    @translator(paddle_name, emits=emits)
    def translate(context: TranslationContext) -> str:
        x, y = context.input("x"), context.input("y")
        return str(getattr(context.onnx, builder_name)([x, y]))


_binary("add", "add", "Add")
_binary("subtract", "sub", "Sub")
# Paddle casts integers before it divides them.
_binary("divide", "div", "Div")
_binary("multiply", "mul", "Mul")
_binary("maximum", "max", "Max")
_binary("minimum", "min", "Min")
_binary("elementwise_pow", "pow", "Pow")


@translator("floor_divide", emits="Div Floor", limits="integer tensors must be constant")
def floor_divide(context: TranslationContext) -> str:
    """``floor(x / y)``."""
    x, y = context.input("x"), context.input("y")
    if not context.is_float(x):
        raise context.refuse(
            "floor division of integer tensors computed at run time is not supported yet; "
            "constants are folded. Cast to float32 first."
        )
    return str(context.onnx.floor([context.onnx.div([x, y])]))


@translator("remainder", emits="graphcore.Remainder")
def remainder(context: TranslationContext) -> str:
    """``x - floor(x / y) * y``, with the sign of the divisor."""
    return str(context.graphcore.remainder([context.input("x"), context.input("y")]))


@translator("scale", emits="Mul Add Identity graphcore.Detach Reshape Cast")
def scale(context: TranslationContext) -> str:
    """``scale * x + bias`` or ``scale * (x + bias)``; for integers both numbers are cut to whole
    ones first, as in Paddle. A factor computed at run time gets no gradient, as in Paddle."""
    x = context.input("x")
    bias = float(context.attr("bias", 0.0))
    bias = bias if context.is_float(x) else float(int(bias))
    terms = [("mul", _factor(context, x)), ("add", context.const_like(bias, x) if bias else None)]
    result = x
    for builder_name, term in terms if context.attr("bias_after_scale", 1) else terms[::-1]:
        if term is not None:
            result = str(getattr(context.onnx, builder_name)([result, term]))
    return str(context.onnx.identity([x])) if result == x else result


def _factor(context: TranslationContext, x: str) -> str | None:
    """The factor of a scale as a tensor of x's dtype and rank 0; None where it is 1."""
    if not context.is_constant("scale"):
        tensor = context.cast(context.reshape(context.input("scale"), []), context.dtype(x))
        return str(context.graphcore.detach([tensor]))
    number = float(context.static("scale").reshape(()))
    number = number if context.is_float(x) else float(int(number))
    return None if number == 1.0 else context.const_like(number, x)


@translator("add_n", emits="Sum")
def add_n(context: TranslationContext) -> str:
    """The sum of a list of tensors of one shape."""
    return str(context.onnx.sum(context.inputs("inputs")))


@translator("pow", emits="Pow")
def power(context: TranslationContext) -> str:
    """``x ** y`` with a constant exponent."""
    x = context.input("x")
    exponent = context.const_like(float(context.attr("y")), x)
    return str(context.onnx.pow([x, exponent]))


@translator("clip", emits="Clip")
def clip(context: TranslationContext) -> str:
    """``min(max(x, low), high)`` with constant bounds."""
    x = context.input("x")
    bounds = [
        context.const_like(float(context.static(name).reshape(())), x) for name in ("min", "max")
    ]
    return str(context.onnx.clip([x, *bounds]))


@translator("lerp", emits="Sub Mul Add graphcore.Detach")
def lerp(context: TranslationContext) -> str:
    """``x + weight * (y - x)``; no gradient flows to the weight."""
    x, y = context.input("x"), context.input("y")
    weight = str(context.graphcore.detach([context.input("weight")]))
    step = context.onnx.mul([weight, context.onnx.sub([y, x])])
    return str(context.onnx.add([x, step]))


@translator("atan2", emits="graphcore.Atan2")
def atan2(context: TranslationContext) -> str:
    """The angle of the point (y, x)."""
    return str(context.graphcore.atan2([context.input("x"), context.input("y")]))


def _ignoring_nan(paddle_name: str, builder_name: str, op_type: str) -> None:
    @translator(paddle_name, emits=f"{op_type} IsNaN Less Or Not Where")
    def translate(context: TranslationContext) -> str:
        # At a tie the whole gradient goes to x, where Max and Min share it.
        x, y = context.input("x"), context.input("y")
        if not context.is_float(x):
            return str(getattr(context.onnx, builder_name)([x, y]))
        pair = [x, y] if paddle_name == "fmax" else [y, x]
        not_worse = context.onnx.logical_not([context.onnx.less(pair)])
        no_y = context.onnx.isnan([y])
        # Not(Less) holds for NaN too, so a NaN in x is looked for first.
        chosen = context.onnx.where([context.onnx.logical_or([not_worse, no_y]), x, y])
        return str(context.onnx.where([context.onnx.isnan([x]), y, chosen]))


_ignoring_nan("fmax", "max", "Max")
_ignoring_nan("fmin", "min", "Min")
