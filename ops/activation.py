"""Unary functions and activations."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _unary(paddle_name: str, builder_name: str, op_type: str) -> None:
    @translator(paddle_name, emits=op_type)
    def translate(context: TranslationContext) -> str:
        opset = context.graphcore if op_type.startswith("graphcore.") else context.onnx
        return str(getattr(opset, builder_name)([context.input("x")]))


for _paddle_name, _builder_name, _op_type in (
    ("abs", "abs", "Abs"),
    ("ceil", "ceil", "Ceil"),
    ("cos", "cos", "Cos"),
    ("erf", "erf", "Erf"),
    ("exp", "exp", "Exp"),
    ("expm1", "expm1", "graphcore.Expm1"),
    ("floor", "floor", "Floor"),
    ("log", "log", "Log"),
    ("log1p", "log1p", "graphcore.Log1p"),
    ("reciprocal", "reciprocal", "Reciprocal"),
    ("relu", "relu", "Relu"),
    ("sigmoid", "sigmoid", "Sigmoid"),
    ("sign", "sign", "Sign"),
    ("sin", "sin", "Sin"),
    ("softsign", "softsign", "Softsign"),
    ("sqrt", "sqrt", "Sqrt"),
    ("tanh", "tanh", "Tanh"),
):
    _unary(_paddle_name, _builder_name, _op_type)


@translator("gelu", emits="graphcore.Gelu graphcore.GeluErf")
def gelu(context: TranslationContext) -> str:
    """``x * Phi(x)``, Phi by erf, or by tanh where ``approximate`` is set."""
    x = context.input("x")
    if context.attr("approximate", 0):
        return str(context.graphcore.gelu([x]))
    return str(context.graphcore.geluerf([x]))


@translator("square", emits="Mul")
def square(context: TranslationContext) -> str:
    """``x * x``."""
    x = context.input("x")
    return str(context.onnx.mul([x, x]))


@translator("rsqrt", emits="Sqrt Reciprocal")
def rsqrt(context: TranslationContext) -> str:
    """``1 / sqrt(x)``."""
    return str(context.onnx.reciprocal([context.onnx.sqrt([context.input("x")])]))


@translator("silu", emits="graphcore.Swish")
def silu(context: TranslationContext) -> str:
    """``x * sigmoid(x)``."""
    return str(context.graphcore.swish([context.input("x")]))


@translator("relu6", emits="Clip")
def relu6(context: TranslationContext) -> str:
    """``min(max(x, 0), 6)``."""
    x = context.input("x")
    return str(context.onnx.clip([x, context.const_like(0.0, x), context.const_like(6.0, x)]))


@translator("leaky_relu", emits="LeakyRelu")
def leaky_relu(context: TranslationContext) -> str:
    """``x`` where positive, ``negative_slope * x`` elsewhere."""
    return str(context.onnx.leakyrelu([context.input("x")], float(context.attr("negative_slope"))))
