"""Lowerings of element-by-element arithmetic, with NumPy broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import (
    Constant,
    Inputs,
    Pair,
    Single,
    binary,
    is_floating,
    numpy_function,
    on_axis,
    optional_input,
    unary,
    where_in_program,
)
from paddle_ipu.xla.lowerings.registry import (
    Array,
    Attributes,
    Lowering,
    LoweringContext,
    lowering,
)

lowering("ai.onnx", "Add")(numpy_function("add"))
lowering("ai.onnx", "Sub")(numpy_function("subtract"))
lowering("ai.onnx", "Mul")(numpy_function("multiply"))
lowering("ai.onnx", "Where")(numpy_function("where"))


def _truncated_quotient(dividend: Constant, divisor: Constant) -> Constant:
    """Integer quotient rounded towards zero, for NumPy constants."""
    quotient, remainder = np.divmod(dividend, divisor)
    return np.asarray(quotient + ((remainder != 0) & ((dividend < 0) != (divisor < 0))))


@lowering("ai.onnx", "Div")
def div(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Quotient of two tensors; integers round towards zero."""
    dividend, divisor = on_axis(inputs, attributes)
    are_both_constant = isinstance(dividend, np.ndarray) and isinstance(divisor, np.ndarray)
    if are_both_constant and not is_floating(dividend) and np.all(divisor != 0):
        return _truncated_quotient(np.asarray(dividend), np.asarray(divisor))
    operands = jnp.broadcast_arrays(dividend, divisor)
    return _quotient(*operands) if is_floating(divisor) else lax.div(*operands)


@jax.custom_jvp
def _quotient(dividend: jax.Array, divisor: jax.Array) -> jax.Array:
    return lax.div(dividend, divisor)


@_quotient.defjvp
def _quotient_jvp(primals: Pair, tangents: Pair) -> Pair:
    # The slope in the divisor is -(x / y) / y, as Paddle has it: the square of a small divisor,
    # which JAX divides by, is 0.
    divisor = primals[1]
    out = _quotient(*primals)
    # Without a barrier XLA makes x / (y * y) of it.
    again = lax.optimization_barrier(out)  # type: ignore[no-untyped-call]
    return out, tangents[0] / divisor - tangents[1] * (again / divisor)


def _constant_power(base: jax.Array, exponent: float) -> jax.Array | None:
    """`base` to a constant power where something cheaper than pow is as exact, else None."""
    if exponent == 1.0:
        return base
    if exponent == 2.0:
        return lax.square(base)
    if exponent == 3.0:
        return lax.square(base) * base
    if exponent == 0.5:
        return lax.sqrt(base)
    return None


@lowering("ai.onnx", "Pow")
def pow_(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """First tensor to the power of the second."""
    base, exponent = on_axis(inputs, attributes)
    if isinstance(exponent, np.ndarray) and exponent.size == 1 and is_floating(base):
        result = _constant_power(jnp.asarray(base), float(exponent.reshape(())))
        if result is not None:
            return jnp.broadcast_to(result, jnp.broadcast_shapes(base.shape, exponent.shape))
    if not is_floating(base):
        return jnp.power(base, exponent)
    if not is_floating(exponent):
        exponent = jnp.asarray(exponent).astype(base.dtype)
    return _power(base, exponent)


@jax.custom_jvp
def _power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    return jnp.power(base, exponent)


@_power.defjvp
def _power_jvp(primals: Pair, tangents: Pair) -> Pair:
    # As Paddle: no slope in the base where the exponent is 0, and none in the exponent where 0 is
    # raised to 0 or more; else what the formulas give, infinities included.
    base, exponent = primals
    out = _power(base, exponent)
    of_base = jnp.where(exponent == 0, 0.0, exponent * _power(base, exponent - 1))
    of_exponent = jnp.where((base == 0) & (exponent >= 0), 0.0, out * jnp.log(base))
    return out, tangents[0] * of_base + tangents[1] * of_exponent


def _variadic(fold: Callable[[Array, Array], jax.Array]) -> Lowering:
    """The lowering of an operator that folds any number of inputs into one, from the left."""

    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
        first, *others = inputs
        return functools.reduce(fold, others, first)

    return rule


# jnp.maximum and jnp.minimum share the gradient evenly at a tie and give none at NaN, as Paddle.
lowering("ai.onnx", "Max")(_variadic(jnp.maximum))
lowering("ai.onnx", "Min")(_variadic(jnp.minimum))
lowering("ai.onnx", "Sum")(_variadic(jnp.add))


@lowering("ai.onnx", "Mean")
def mean(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """Mean of any number of tensors, element by element."""
    first, *others = inputs
    return functools.reduce(jnp.add, others, first) / len(inputs)


@jax.custom_jvp
def absolute(x: jax.Array) -> jax.Array:
    """|x|, with derivative 0 at 0 as in Paddle; JAX's own is 1 there."""
    return lax.abs(x)


@absolute.defjvp
def _absolute_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    return lax.abs(x), tangent * lax.sign(x)


@jax.custom_jvp
def _sinh(x: jax.Array) -> jax.Array:
    """(e**x - e**-x) / 2, precise also for a large x."""
    return jnp.where(jnp.abs(x) < 1, lax.sinh(x), lax.sign(x) * _hyperbolic(x, -1.0))


@jax.custom_jvp
def _cosh(x: jax.Array) -> jax.Array:
    """(e**x + e**-x) / 2, precise also for a large x."""
    return _hyperbolic(x, 1.0)


@_sinh.defjvp
def _sinh_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    return _sinh(x), tangent * _cosh(x)


@_cosh.defjvp
def _cosh_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    return _cosh(x), tangent * _sinh(x)


def _hyperbolic(x: jax.Array, sign: float) -> jax.Array:
    """``(e**|x| + sign * e**-|x|) / 2`` of squares of ``e**(|x| / 2)``.

    XLA's own, of ``e**(x + log(1 / 2))``, is off by 1e-6 of a large result, and the plain formula
    overflows before the result does.
    """
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    root = jnp.exp(jnp.abs(wide) * 0.5)
    return (0.5 * root * root + sign * (0.5 / root / root)).astype(x.dtype)


_ONNX: dict[str, Callable[[jax.Array], jax.Array]] = {
    "Neg": lax.neg,
    "Abs": absolute,
    "Sqrt": lax.sqrt,
    "Exp": lax.exp,
    "Log": lax.log,
    "Erf": lax.erf,
    "Reciprocal": lambda x: lax.integer_pow(x, -1),
    "Floor": lax.floor,
    "Ceil": lax.ceil,
    "Round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "Sign": lax.sign,
    "Sin": lax.sin,
    "Cos": lax.cos,
    "Tan": lax.tan,
    "Asin": lax.asin,
    "Acos": lax.acos,
    "Atan": lax.atan,
    "Sinh": _sinh,
    "Cosh": _cosh,
    "Asinh": lax.asinh,
    "Acosh": lax.acosh,
    "Atanh": lax.atanh,
}
for _op_type, _function in _ONNX.items():
    lowering("ai.onnx", _op_type)(unary(_function))

_GRAPHCORE: dict[str, Callable[[jax.Array], jax.Array]] = {
    "Log1p": lax.log1p,
    "Expm1": lax.expm1,
    "Round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "NearbyInt": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
}
for _op_type, _function in _GRAPHCORE.items():
    lowering("ai.graphcore", _op_type)(unary(_function))


@lowering("ai.onnx", "Mod")
def mod(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Remainder with the sign of the divisor, or of the dividend with ``fmod`` set."""
    return jnp.fmod(*inputs) if attributes.get("fmod", 0) else jnp.remainder(*inputs)


# With the sign of the dividend, and of the divisor.
lowering("ai.graphcore", "Fmod")(binary(jnp.fmod))
lowering("ai.graphcore", "Remainder")(binary(jnp.remainder))
# The angle of the point (second input, first input).
lowering("ai.graphcore", "Atan2")(binary(jnp.arctan2))


@lowering("ai.graphcore", "IncrementMod")
def increment_mod(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``(x + increment) % modulus`` with the sign of the dividend, in the tensor's dtype."""
    x = jnp.asarray(inputs[0])
    increment, modulus = (
        jnp.asarray(attributes[name]).astype(x.dtype) for name in ("increment", "modulus")
    )
    return jnp.fmod(x + increment, modulus)


@lowering("ai.graphcore", "Scale")
def scale(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Tensor times the attribute ``scale``, in the tensor's dtype."""
    return (jnp.asarray(inputs[0]) * float(attributes["scale"])).astype(inputs[0].dtype)


@lowering("ai.graphcore", "ScaledAdd")
def scaled_add(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """``s0 * T0 + s1 * T1``.

    The scales are inputs 2 and 3, or the attributes ``scale0`` and ``scale1``, by default 1.
    """
    scales = [
        float(attributes.get(f"scale{i}", 1.0)) if given is None else given
        for i, given in enumerate((optional_input(inputs, 2), optional_input(inputs, 3)))
    ]
    first, second = (
        jnp.asarray(tensor) if isinstance(factor, float) and factor == 1.0 else tensor * factor
        for tensor, factor in zip(inputs[:2], scales, strict=True)
    )
    return (first + second).astype(inputs[0].dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _clip(x: jax.Array, lower: float, upper: float) -> jax.Array:
    # Chosen, so that a zero equal to a bound keeps its sign.
    raised = jnp.where(x < lower, lower, x)
    return jnp.where(raised > upper, upper, raised)


@_clip.defjvp
def _clip_jvp(lower: float, upper: float, primals: Single, tangents: Single) -> Pair:
    # Paddle's clip_grad passes the gradient at the bounds themselves.
    (x,), (tangent,) = primals, tangents
    inside = (x >= lower) & (x <= upper)
    return _clip(x, lower, upper), jnp.where(inside, tangent, jnp.zeros_like(tangent))


def _clip_bound(
    context: LoweringContext, inputs: Inputs, attributes: Attributes, index: int, name: str
) -> float | None:
    """A bound: the constant input `index` (opset 11), the attribute `name` (opset 6), or None."""
    if optional_input(inputs, index) is None:
        bound: float | None = attributes.get(name)
        return bound
    value = context.static(inputs, index, name)
    if value.size != 1:
        raise LoweringError(
            f"{where_in_program(context)}: input {index}, {name}, must be one number, "
            f"got shape {value.shape}. Use Min and Max for a bound of several elements."
        )
    number: float = value.reshape(()).item()
    return number


@lowering("ai.onnx", "Clip")
def clip(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor limited to [``min``, ``max``], either of which may be omitted."""
    lower, upper = (
        _clip_bound(context, inputs, attributes, index, name)
        for index, name in ((1, "min"), (2, "max"))
    )
    x = jnp.asarray(inputs[0])
    if is_floating(x):
        lowest, highest = -float("inf"), float("inf")
    else:
        lowest, highest = int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max)
    return _clip(x, lowest if lower is None else lower, highest if upper is None else upper)
