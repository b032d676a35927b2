"""Lowerings of activations, with Paddle's derivative at the points where theirs jump."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, Single, checked_axis, unary
from paddle_ipu.xla.lowerings.registry import Attributes, Lowering, LoweringContext, lowering
from paddle_ipu.xla.lowerings.residuals import Rematerialization, due
from paddle_ipu.xla.precision.half import to_float16

Function = Callable[[jax.Array], jax.Array]


@jax.custom_jvp
def _relu(x: jax.Array) -> jax.Array:
    # NaN becomes 0, as in Paddle's kernel, oneDNN's and those of kernels/simd.
    return jnp.where(x > 0, x, jnp.zeros_like(x))


@_relu.defjvp
def _relu_jvp(primals: Single, tangents: Single) -> Pair:
    # Zero at zero; the derivative of max(x, 0) would be one half.
    (x,), (tangent,) = primals, tangents
    return _relu(x), jnp.where(x > 0, tangent, jnp.zeros_like(tangent))


def _softsign(x: jax.Array) -> jax.Array:
    return x / (1 + jnp.abs(x))


_softsign_with_derivative = jax.custom_jvp(_softsign)


@_softsign_with_derivative.defjvp
def _softsign_jvp(primals: Single, tangents: Single) -> Pair:
    # In closed form: the quotient rule suffers from cancellation for large arguments.
    (x,), (tangent,) = primals, tangents
    return _softsign(x), tangent / lax.square(1 + jnp.abs(x))


@jax.custom_jvp
def _tanh(x: jax.Array) -> jax.Array:
    return lax.tanh(x)


@_tanh.defjvp
def _tanh_jvp(primals: Single, tangents: Single) -> Pair:
    # JAX multiplies by 1 + tanh first, as a sum: an infinite tangent times 0 is NaN at 0.
    (x,), (tangent,) = primals, tangents
    y = _tanh(x)
    return y, tangent * (1 + y) * (1 - y)


@jax.custom_jvp
def _swish(x: jax.Array) -> jax.Array:
    return x * lax.logistic(x)


@_swish.defjvp
def _swish_jvp(primals: Single, tangents: Single) -> Pair:
    # The slope first: x times the tangent may be beyond the range.
    (x,), (tangent,) = primals, tangents
    share = lax.logistic(x)
    return _swish(x), share * (1 + x * (1 - share)) * tangent


_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)


def gelu_erf(x: jax.Array) -> jax.Array:
    """``x * P(X <= x)`` of a standard normal X."""
    return 0.5 * x * (1 + lax.erf(x * math.sqrt(0.5)))


def gelu_erf_slope(x: jax.Array) -> jax.Array:
    """The derivative of :func:`gelu_erf`."""
    density = 0.5 * _ROOT_2_OVER_PI * jnp.exp(-0.5 * lax.square(x))
    return 0.5 * (1 + lax.erf(x * math.sqrt(0.5))) + x * density


def _tanh_of_cube(x: jax.Array) -> jax.Array:
    return jnp.tanh(_ROOT_2_OVER_PI * (x + 0.044715 * (x * x * x)))


def gelu_tanh(x: jax.Array) -> jax.Array:
    """:func:`gelu_erf` with tanh of a cubic for the error function (arXiv:1606.08415)."""
    return 0.5 * x * (1 + _tanh_of_cube(x))


def gelu_tanh_slope(x: jax.Array) -> jax.Array:
    """The derivative of :func:`gelu_tanh`."""
    curve, inner = _tanh_of_cube(x), _ROOT_2_OVER_PI * (1 + 3 * 0.044715 * lax.square(x))
    return 0.5 * (1 + curve) + 0.5 * x * (1 - lax.square(curve)) * inner


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _elementwise(x: jax.Array, function: Function, slope: Function) -> jax.Array:
    return function(x)


def _elementwise_forward(x: jax.Array, function: Function, slope: Function) -> Pair:
    return function(x), x


def _elementwise_backward(
    function: Function, slope: Function, x: jax.Array, gradient: jax.Array
) -> tuple[jax.Array]:
    x, gradient = due(x, gradient)
    return (gradient * slope(x),)


_elementwise.defvjp(_elementwise_forward, _elementwise_backward)


def _keeping_argument(function: Function, slope: Function) -> Lowering:
    """The lowering of an elementwise operator of which backward keeps the argument alone.

    To compute its result and derivative again costs less than to keep them in memory.
    """

    def lower(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
        x = jnp.asarray(inputs[0])
        context.rematerialized[0] = Rematerialization(function, (x,))
        return _elementwise(x, function, slope)

    return lower


lowering("ai.graphcore", "Gelu")(_keeping_argument(gelu_tanh, gelu_tanh_slope))
lowering("ai.graphcore", "GeluErf")(_keeping_argument(gelu_erf, gelu_erf_slope))
lowering("ai.onnx", "Tanh")(unary(_tanh))
lowering("ai.onnx", "Relu")(unary(_relu))
lowering("ai.onnx", "Sigmoid")(unary(lax.logistic))
lowering("ai.onnx", "Softplus")(unary(lambda x: jnp.logaddexp(x, jnp.zeros_like(x))))
lowering("ai.onnx", "Softsign")(unary(_softsign_with_derivative))
lowering("ai.graphcore", "Swish")(unary(_swish))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _exponential_below_zero(x: jax.Array, alpha: float) -> jax.Array:
    """`x` above zero, ``alpha * (exp(x) - 1)`` at zero and below; the derivative at 0 is alpha."""
    return jnp.where(x < 0, alpha * jnp.expm1(jnp.minimum(x, 0)), x)


@_exponential_below_zero.defjvp
def _exponential_below_zero_jvp(alpha: float, primals: Single, tangents: Single) -> Pair:
    # Not from the result: near -alpha it has no digits of the derivative.
    (x,), (tangent,) = primals, tangents
    slope = jnp.where(x > 0, jnp.ones_like(x), alpha * jnp.exp(jnp.minimum(x, 0)))
    return _exponential_below_zero(x, alpha), slope * tangent


@lowering("ai.onnx", "Elu")
def elu(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """ELU with ``alpha`` (default 1)."""
    return _exponential_below_zero(jnp.asarray(inputs[0]), float(attributes.get("alpha", 1.0)))


@lowering("ai.onnx", "Selu")
def selu(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """SELU: ``gamma`` times ELU with ``alpha``; NaN has the derivative ``gamma``, as in Paddle."""
    alpha = float(attributes.get("alpha", 1.67326319217681884765625))
    gamma = float(attributes.get("gamma", 1.05070102214813232421875))
    x = jnp.asarray(inputs[0])
    is_below = x <= 0
    below = _exponential_below_zero(jnp.where(is_below, x, jnp.zeros_like(x)), alpha)
    return gamma * jnp.where(is_below, below, x)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _leaky_relu(x: jax.Array, alpha: float) -> jax.Array:
    # The larger of both, or the smaller: 0 times minus infinity is no number, and x remains.
    sloped = alpha * x
    return jnp.where(sloped > x if alpha < 1 else sloped < x, sloped, x)


@_leaky_relu.defjvp
def _leaky_relu_jvp(alpha: float, primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    below = jnp.where(x < 0, alpha * tangent, jnp.zeros_like(tangent))
    return _leaky_relu(x, alpha), jnp.where(x >= 0, tangent, below)


@lowering("ai.onnx", "LeakyRelu")
def leaky_relu(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """`x` at zero and above, ``alpha * x`` below (default 0.01); the derivative at 0 is 1.

    NaN has the derivative 0, as in Paddle.
    """
    return _leaky_relu(jnp.asarray(inputs[0]), float(attributes.get("alpha", 0.01)))


@lowering("ai.onnx", "PRelu")
def prelu(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """`x` above zero, ``slope * x`` at zero and below; the derivative at 0 is the slope."""
    x, slope = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    return jnp.where(x > 0, x, slope * x)


@lowering("ai.onnx", "ThresholdedRelu")
def thresholded_relu(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """`x` above ``alpha`` (default 1), zero at it and below, and so the derivative."""
    x = jnp.asarray(inputs[0])
    return jnp.where(x > float(attributes.get("alpha", 1.0)), x, jnp.zeros_like(x))


@lowering("ai.onnx", "Shrink")
def shrink(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """`x` moved by ``bias`` towards zero outside [-``lambd``, ``lambd``], zero inside."""
    x = jnp.asarray(inputs[0])
    edge, bias = float(attributes.get("lambd", 0.5)), float(attributes.get("bias", 0.0))
    moved = jnp.where(x > 0, x - bias, x + bias)
    return jnp.where((x > edge) | (x < -edge), moved, jnp.zeros_like(moved)).astype(x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _hard_sigmoid(x: jax.Array, alpha: float, beta: float) -> jax.Array:
    return jnp.clip(alpha * x + beta, 0, 1)


@_hard_sigmoid.defjvp
def _hard_sigmoid_jvp(alpha: float, beta: float, primals: Single, tangents: Single) -> Pair:
    # Paddle's gradient is 0 at both corners.
    (x,), (tangent,) = primals, tangents
    out = _hard_sigmoid(x, alpha, beta)
    return out, jnp.where((out > 0) & (out < 1), alpha * tangent, jnp.zeros_like(tangent))


@lowering("ai.onnx", "HardSigmoid")
def hard_sigmoid(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``max(0, min(1, alpha * x + beta))``, by default with 0.2 and 0.5."""
    alpha, beta = float(attributes.get("alpha", 0.2)), float(attributes.get("beta", 0.5))
    return _hard_sigmoid(jnp.asarray(inputs[0]), alpha, beta)


def _flattened_axes(
    context: LoweringContext, x: jax.Array, attributes: Attributes
) -> int | tuple[int, ...]:
    """``axis`` (default 1) and all behind it, which opset 11 treats as one axis."""
    axis = checked_axis(context, int(attributes.get("axis", 1)), x.ndim)
    return -1 if axis == x.ndim - 1 else tuple(range(axis, x.ndim))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _unstable_softmax(x: jax.Array, axis: int | tuple[int, ...], in_half: bool) -> jax.Array:
    powers = lax.exp(x)
    powers = to_float16(powers) if in_half else powers
    return powers / jnp.sum(powers, axis=axis, keepdims=True)


@_unstable_softmax.defjvp
def _unstable_softmax_jvp(
    axis: int | tuple[int, ...], in_half: bool, primals: Single, tangents: Single
) -> Pair:
    (x,), (tangent,) = primals, tangents
    out = _unstable_softmax(x, axis, in_half)
    return out, out * (tangent - jnp.sum(out * tangent, axis=axis, keepdims=True))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _softmax(x: jax.Array, axis: int | tuple[int, ...]) -> jax.Array:
    return jax.nn.softmax(x, axis=axis)


def _softmax_forward(x: jax.Array, axis: int | tuple[int, ...]) -> Pair:
    out = _softmax(x, axis)
    return out, out


def _softmax_backward(
    axis: int | tuple[int, ...], out: jax.Array, gradient: jax.Array
) -> tuple[jax.Array]:
    out, gradient = due(out, gradient)
    return (out * (gradient - jnp.sum(out * gradient, axis=axis, keepdims=True)),)


_softmax.defvjp(_softmax_forward, _softmax_backward)


@lowering("ai.onnx", "Softmax")
def softmax(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Softmax over ``axis`` and all axes behind it, as one (opset 11).

    The unstable form takes ``exp(x)`` without subtracting the maximum. It is infinite for half
    tensors above 11.09, for float32 above 88.7, and the result is NaN then.
    """
    x = jnp.asarray(inputs[0])
    axis = _flattened_axes(context, x, attributes)
    if context.precision.unstable_softmax:
        return _unstable_softmax(x, axis, context.is_half)
    return _softmax(x, axis)


@lowering("ai.onnx", "LogSoftmax")
def log_softmax(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Logarithm of softmax over ``axis`` and all axes behind it, as one (opset 11).

    The unstable form is minus infinity where :func:`softmax`'s is NaN.
    """
    x = jnp.asarray(inputs[0])
    axis = _flattened_axes(context, x, attributes)
    if context.precision.unstable_softmax:
        powers = lax.exp(x)
        powers = to_float16(powers) if context.is_half else powers
        return x - jnp.log(jnp.sum(powers, axis=axis, keepdims=True))
    return jax.nn.log_softmax(x, axis=axis)
