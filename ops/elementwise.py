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
_binary("multiply", "mul", "Mul")
_binary("maximum", "max", "Max")
_binary("minimum", "min", "Min")
_binary("elementwise_pow", "pow", "Pow")


@translator("divide", emits="Div Cast")
def divide(context: TranslationContext) -> str:
    """``x / y``; integers give a floating-point quotient, as in Paddle."""
    dtype = context.output_dtype()
    x, y = (context.cast(context.input(name), dtype) for name in ("x", "y"))
    return str(context.onnx.div([x, y]))


@translator("floor_divide", emits="Div Floor Cast")
def floor_divide(context: TranslationContext) -> str:
    """``floor(x / y)``: by floating point for floats; exact for integers below 2**24 in size."""
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


@translator("scale", emits="Mul Add Cast Identity")
def scale(context: TranslationContext) -> str:
    """``scale * x + bias`` or ``scale * (x + bias)``; exact for integers."""
    x = context.input("x")
    factor = float(context.static("scale").reshape(()))
    bias = float(context.attr("bias", 0.0))
    dtype = context.dtype(x)
    whole = factor.is_integer() and bias.is_integer()
    if not context.is_float(x) and not whole:
        x = context.cast(x, "float32")
    result = x
    if context.attr("bias_after_scale", 1):
        if factor != 1.0:
            result = str(context.onnx.mul([result, context.const_like(factor, result)]))
        if bias != 0.0:
            result = str(context.onnx.add([result, context.const_like(bias, result)]))
    else:
        if bias != 0.0:
            result = str(context.onnx.add([result, context.const_like(bias, result)]))
        if factor != 1.0:
            result = str(context.onnx.mul([result, context.const_like(factor, result)]))
    if result == x:
        result = str(context.onnx.identity([x]))
    return context.cast(result, dtype)


@translator("add_n", emits="Sum Identity")
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
