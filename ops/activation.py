"""Translators of unary functions and of activations without a break in their derivative."""

from __future__ import annotations

import math

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import as_float


def _unary(paddle_name: str, builder_name: str, op_type: str) -> None:
    """Registers an operator that one PopART operator computes as Paddle does."""

    @translator(paddle_name, emits=(op_type,))
    def translate(context: TranslationContext) -> str:
        opset = context.graphcore if op_type.startswith("graphcore.") else context.onnx
        return str(getattr(opset, builder_name)([context.input("x")]))


for _paddle_name, _builder_name, _op_type in (
    ("abs", "abs", "Abs"),
    ("acos", "acos", "Acos"),
    ("acosh", "acosh", "Acosh"),
    ("asin", "asin", "Asin"),
    ("asinh", "asinh", "Asinh"),
    ("atan", "atan", "Atan"),
    ("atanh", "atanh", "Atanh"),
    ("cos", "cos", "Cos"),
    ("cosh", "cosh", "Cosh"),
    ("erf", "erf", "Erf"),
    ("reciprocal", "reciprocal", "Reciprocal"),
    ("relu", "relu", "Relu"),
    ("sigmoid", "sigmoid", "Sigmoid"),
    ("sign", "sign", "Sign"),
    ("sin", "sin", "Sin"),
    ("sinh", "sinh", "Sinh"),
    ("softsign", "softsign", "Softsign"),
    ("sqrt", "sqrt", "Sqrt"),
    ("tan", "tan", "Tan"),
    ("tanh", "tanh", "Tanh"),
):
    _unary(_paddle_name, _builder_name, _op_type)


def _of_floats(paddle_name: str, op_type: str) -> None:
    """Registers a function of floats; Paddle's kernel casts integers to float32 first."""

    @translator(paddle_name, emits=(op_type, "Cast"))
    def translate(context: TranslationContext) -> str:
        opset = context.graphcore if op_type.startswith("graphcore.") else context.onnx
        return str(getattr(opset, paddle_name)([as_float(context, "x")]))


for _paddle_name, _op_type in (
    ("exp", "Exp"),
    ("expm1", "graphcore.Expm1"),
    ("log", "Log"),
    ("log1p", "graphcore.Log1p"),
):
    _of_floats(_paddle_name, _op_type)


def _whole(paddle_name: str, builder_name: str, op_type: str) -> None:
    """Registers a rounding to integers; a tensor of integers stays as it is."""

    @translator(paddle_name, emits=(op_type, "Identity"))
    def translate(context: TranslationContext) -> str:
        x = context.input("x")
        to_whole = getattr(context.onnx, builder_name if context.is_float(x) else "identity")
        return str(to_whole([x]))


_whole("ceil", "ceil", "Ceil")
_whole("floor", "floor", "Floor")
_whole("rint", "round", "Round")


@translator("gelu", emits=("graphcore.Gelu", "graphcore.GeluErf"))
def gelu(context: TranslationContext) -> str:
    """``x * Phi(x)``, Phi being the standard normal distribution function (arXiv:1606.08415).

    Phi is computed by erf (``GeluErf``), or with ``approximate`` by tanh (``Gelu``).
    """
    x = context.input("x")
    if context.attr("approximate", 0):
        return context.graphcore.gelu([x])
    return context.graphcore.geluerf([x])


@translator("square", emits=("Mul",))
def square(context: TranslationContext) -> str:
    """``x * x``."""
    x = context.input("x")
    return context.onnx.mul([x, x])


@translator("rsqrt", emits=("Sqrt", "Reciprocal"))
def rsqrt(context: TranslationContext) -> str:
    """``1 / sqrt(x)``."""
    return context.onnx.reciprocal([context.onnx.sqrt([context.input("x")])])


@translator("silu", "swish", emits=("graphcore.Swish",))
def silu(context: TranslationContext) -> str:
    """``x * sigmoid(x)``: PopART's Swish with beta 1."""
    return context.graphcore.swish([context.input("x")])


@translator("leaky_relu", emits=("LeakyRelu",))
def leaky_relu(context: TranslationContext) -> str:
    """``x`` where positive, ``negative_slope * x`` elsewhere."""
    return context.onnx.leakyrelu([context.input("x")], float(context.attr("negative_slope")))


@translator("elu", emits=("Elu",))
def elu(context: TranslationContext) -> str:
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    return context.onnx.elu([context.input("x")], float(context.attr("alpha", 1.0)))


@translator("selu", emits=("Selu",))
def selu(context: TranslationContext) -> str:
    """``scale * x`` where positive, ``scale * alpha * (exp(x) - 1)`` below (arXiv:1706.02515)."""
    alpha, scale = float(context.attr("alpha")), float(context.attr("scale"))
    return context.onnx.selu([context.input("x")], alpha, scale)


@translator("celu", emits=("Greater", "Where", "Div", "Elu", "Exp", "Sub", "Mul"))
def celu(context: TranslationContext) -> str:
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere (arXiv:1704.07483)."""
    x, alpha = context.input("x"), float(context.attr("alpha", 1.0))
    if alpha == 0:
        raise context.refuse("alpha is 0, and x is divided by it.")
    positive = context.onnx.greater([x, context.const_like(0.0, x)])
    below = context.onnx.where([positive, context.const_like(0.0, x), x])
    factor = context.const_like(alpha, x)
    inner = context.onnx.div([below, factor])
    if alpha > 0:
        curve = context.onnx.elu([inner], 1.0)
    else:
        # It is positive, where Elu is the identity.
        curve = context.onnx.sub([context.onnx.exp([inner]), context.const_like(1.0, x)])
    return context.onnx.where([positive, x, context.onnx.mul([curve, factor])])


@translator("softplus", emits=("Softplus", "Mul", "Greater", "Where"))
def softplus(context: TranslationContext) -> str:
    """``log(1 + exp(beta * x)) / beta``; ``x`` where ``beta * x`` exceeds ``threshold``."""
    x = context.input("x")
    beta, threshold = float(context.attr("beta", 1.0)), float(context.attr("threshold", 20.0))
    scaled = x if beta == 1.0 else context.onnx.mul([x, context.const_like(beta, x)])
    soft = context.onnx.softplus([scaled])
    if beta != 1.0:
        soft = context.onnx.mul([soft, context.const_like(1.0 / beta if beta else math.inf, x)])
    linear = context.onnx.greater([scaled, context.const_like(threshold, x)])
    return context.onnx.where([linear, x, soft])


@translator("logsigmoid", emits=("Neg", "Softplus"))
def logsigmoid(context: TranslationContext) -> str:
    """``log(sigmoid(x))``, computed as ``-softplus(-x)``, which does not overflow."""
    negative = context.onnx.neg([context.input("x")])
    return context.onnx.neg([context.onnx.softplus([negative])])


@translator("mish", emits=("Softplus", "Tanh", "Mul"), limits="lambda must be 20")
def mish(context: TranslationContext) -> str:
    """``x * tanh(softplus(x))`` (arXiv:1908.08681)."""
    bound = float(context.attr("lambda", 20.0))
    if bound != 20.0:
        raise context.refuse(
            f"its threshold must be 20, got {bound}: above it, x itself is the logarithm."
        )
    x = context.input("x")
    return context.onnx.mul([x, context.onnx.tanh([context.onnx.softplus([x])])])


@translator("tanh_shrink", emits=("Tanh", "Sub"))
def tanh_shrink(context: TranslationContext) -> str:
    """``x - tanh(x)``."""
    x = context.input("x")
    return context.onnx.sub([x, context.onnx.tanh([x])])


@translator("stanh", emits=("Tanh", "Mul"))
def stanh(context: TranslationContext) -> str:
    """``scale_b * tanh(scale_a * x)``."""
    x = context.input("x")
    inner = context.onnx.mul([x, context.const_like(float(context.attr("scale_a")), x)])
    factor = context.const_like(float(context.attr("scale_b")), x)
    return context.onnx.mul([context.onnx.tanh([inner]), factor])


def _logarithm(paddle_name: str, base: float) -> None:
    """Registers a logarithm: ``log(x) / log(base)``, the factor folded to one constant."""

    @translator(paddle_name, emits=("Log", "Mul", "Cast"))
    def translate(context: TranslationContext) -> str:
        x = as_float(context, "x")
        factor = context.const_like(1.0 / math.log(base), x)
        return context.onnx.mul([context.onnx.log([x]), factor])


_logarithm("log2", 2.0)
_logarithm("log10", 10.0)
