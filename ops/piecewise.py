"""Translators of piecewise functions, with Paddle's derivative where the pieces meet."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _limited(context: TranslationContext, low: float, high: float) -> str:
    """``min(max(x, low), high)``, whose derivative at both limits is 0, where Clip's is 1."""
    x = context.input("x")
    bounds = [context.const_like(low, x), context.const_like(high, x)]
    inside = context.onnx.logical_and(
        [context.onnx.greater([x, bounds[0]]), context.onnx.less([x, bounds[1]])]
    )
    limited = context.graphcore.detach([context.onnx.clip([x, *bounds])])
    return context.onnx.where([inside, x, limited])


_LIMITED = ("Greater", "Less", "And", "Clip", "graphcore.Detach", "Where")


@translator("relu6", emits=_LIMITED)
def relu6(context: TranslationContext) -> str:
    """``min(max(x, 0), 6)``."""
    return _limited(context, 0.0, 6.0)


@translator("hardtanh", emits=_LIMITED)
def hardtanh(context: TranslationContext) -> str:
    """``min(max(x, t_min), t_max)``."""
    return _limited(context, float(context.attr("t_min")), float(context.attr("t_max")))


@translator("hardsigmoid", emits=("HardSigmoid",))
def hardsigmoid(context: TranslationContext) -> str:
    """``min(max(slope * x + offset, 0), 1)``."""
    slope, offset = float(context.attr("slope")), float(context.attr("offset"))
    return context.onnx.hardsigmoid([context.input("x")], slope, offset)


@translator("hardswish", emits=("HardSigmoid", "Mul"))
def hardswish(context: TranslationContext) -> str:
    """``x * min(max(x + 3, 0), 6) / 6``."""
    x = context.input("x")
    return context.onnx.mul([x, context.onnx.hardsigmoid([x], 1.0 / 6.0, 0.5)])


@translator("prelu", emits=("Greater", "Mul", "Where", "Reshape"))
def prelu(context: TranslationContext) -> str:
    """``x`` where positive, ``alpha * x`` elsewhere (arXiv:1502.01852).

    ``mode`` says whether there is one alpha, one for each channel, or one for each element.
    """
    x, alpha = context.input("x"), context.input("alpha")
    shape = context.shape(x)
    mode = context.attr("mode", "all")
    dims = [1] * len(shape)
    if mode == "channel":
        channel = 1 if context.attr("data_format", "NCHW") == "NCHW" else len(shape) - 1
        dims[channel] = shape[channel]
    elif mode == "element":
        dims = [1, *shape[1:]]
    positive = context.onnx.greater([x, context.const_like(0.0, x)])
    # One product: the gradient of an alpha has no term of an infinite x that is positive.
    slope = [positive, context.const_like(1.0, x), context.reshape(alpha, dims)]
    return context.onnx.mul([x, context.onnx.where(slope)])


def _nan_or(context: TranslationContext, x: str, number: str) -> str:
    """`number`, but NaN where `x` is NaN; without gradient."""
    fixed = context.graphcore.detach([x])
    return context.onnx.where([context.onnx.isnan([fixed]), fixed, number])


@translator(
    "softshrink", emits=("Greater", "Less", "Add", "Sub", "Where", "IsNaN", "graphcore.Detach")
)
def softshrink(context: TranslationContext) -> str:
    """``x - t`` above the threshold t, ``x + t`` below -t, 0 between; NaN stays NaN."""
    x = context.input("x")
    step = float(context.attr("threshold", 0.5))
    threshold, zero = context.const_like(step, x), context.const_like(0.0, x)
    above = context.onnx.greater([x, threshold])
    below = context.onnx.less([x, context.const_like(-step, x)])
    low = context.onnx.where([below, context.onnx.add([x, threshold]), _nan_or(context, x, zero)])
    return context.onnx.where([above, context.onnx.sub([x, threshold]), low])


@translator("hardshrink", emits=("Abs", "Less", "Where"))
def hardshrink(context: TranslationContext) -> str:
    """0 where ``|x|`` is below the threshold, else ``x``; NaN stays NaN."""
    x = context.input("x")
    threshold = context.const_like(float(context.attr("threshold", 0.5)), x)
    within = context.onnx.less([context.onnx.abs([x]), threshold])
    return context.onnx.where([within, context.const_like(0.0, x), x])


@translator("thresholded_relu", emits=("Greater", "Where", "IsNaN", "graphcore.Detach"))
def thresholded_relu(context: TranslationContext) -> str:
    """``x`` above the threshold, ``value`` elsewhere; NaN stays NaN."""
    x = context.input("x")
    above = context.onnx.greater([x, context.const_like(float(context.attr("threshold")), x)])
    value = context.const_like(float(context.attr("value", 0.0)), x)
    return context.onnx.where([above, x, _nan_or(context, x, value)])


@translator("trunc", emits=("Floor", "Ceil", "Less", "Where", "Identity"))
def trunc(context: TranslationContext) -> str:
    """``x`` rounded towards zero."""
    x = context.input("input")
    if not context.is_float(x):
        return context.onnx.identity([x])
    negative = context.onnx.less([x, context.const_like(0.0, x)])
    return context.onnx.where([negative, context.onnx.ceil([x]), context.onnx.floor([x])])


@translator("round", emits=("Round", "Identity", "Mul", "Div"))
def round_(context: TranslationContext) -> str:
    """``x`` rounded to ``decimals`` digits, halves to even; negative ``decimals`` round to tens."""
    x, decimals = context.input("x"), int(context.attr("decimals", 0))
    if not context.is_float(x):
        return context.onnx.identity([x])
    if decimals == 0:
        return context.onnx.round([x])
    scale = context.const_like(10.0 ** abs(decimals), x)
    up, down = context.onnx.mul, context.onnx.div
    if decimals < 0:
        up, down = down, up
    return str(down([context.onnx.round([up([x, scale])]), scale]))
