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


def _where_true(context: TranslationContext, condition: str, x: str) -> str:
    """`x` times 1 where a condition holds and times 0 elsewhere, as Paddle's kernels have it.

    0 times infinity is NaN, and 0 times a negative number is -0.
    """
    # XLA would make a choice between x and 0 of a product with a cast condition.
    return context.onnx.where([condition, x, context.onnx.mul([x, context.const_like(0.0, x)])])


@translator("softshrink", emits=("Greater", "Less", "Add", "Sub", "Mul", "Where"))
def softshrink(context: TranslationContext) -> str:
    """``x - t`` above the threshold t, ``x + t`` below -t, 0 between; infinities give NaN."""
    x = context.input("x")
    step = float(context.attr("threshold", 0.5))
    threshold = context.const_like(step, x)
    above = context.onnx.greater([x, threshold])
    below = context.onnx.less([x, context.const_like(-step, x)])
    high = _where_true(context, above, context.onnx.sub([x, threshold]))
    low = _where_true(context, below, context.onnx.add([x, threshold]))
    return context.onnx.add([high, low])


@translator("hardshrink", emits=("Abs", "Greater", "Equal", "Or", "Mul", "Where"))
def hardshrink(context: TranslationContext) -> str:
    """0 of x's sign where ``|x|`` is below the threshold, else ``x``; NaN stays NaN."""
    x = context.input("x")
    bounds = [context.onnx.abs([x]), context.const_like(float(context.attr("threshold", 0.5)), x)]
    beyond = [context.onnx.greater(bounds), context.onnx.equal(bounds)]
    return _where_true(context, context.onnx.logical_or(beyond), x)


@translator("thresholded_relu", emits=("Greater", "Not", "Mul", "Where", "Add"))
def thresholded_relu(context: TranslationContext) -> str:
    """``x`` above the threshold, ``value`` elsewhere; NaN and minus infinity give NaN."""
    x = context.input("x")
    above = context.onnx.greater([x, context.const_like(float(context.attr("threshold")), x)])
    value = context.const_like(float(context.attr("value", 0.0)), x)
    low = _where_true(context, context.onnx.logical_not([above]), value)
    return context.onnx.add([_where_true(context, above, x), low])


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
