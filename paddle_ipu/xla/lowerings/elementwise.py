"""Lowerings of element-by-element arithmetic, with NumPy broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import (
    are_constants,
    array_module,
    input_or_none,
    is_floating,
    on_axis,
    unary,
    where_in_program,
)
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


@lowering("ai.onnx", "Add")
def add(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Sum of two tensors."""
    inputs = on_axis(inputs, attributes)
    return np.asarray(np.add(*inputs)) if are_constants(inputs) else jnp.add(*inputs)


@lowering("ai.onnx", "Sub")
def sub(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Difference of two tensors."""
    inputs = on_axis(inputs, attributes)
    return np.asarray(np.subtract(*inputs)) if are_constants(inputs) else jnp.subtract(*inputs)


@lowering("ai.onnx", "Mul")
def mul(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Product of two tensors."""
    inputs = on_axis(inputs, attributes)
    return np.asarray(np.multiply(*inputs)) if are_constants(inputs) else jnp.multiply(*inputs)


def _truncated_quotient(dividend: Any, divisor: Any) -> Any:
    """Integer quotient rounded towards zero, for NumPy constants."""
    quotient, remainder = np.divmod(dividend, divisor)
    return np.asarray(quotient + ((remainder != 0) & ((dividend < 0) != (divisor < 0))))


@lowering("ai.onnx", "Div")
def div(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Quotient of two tensors; integers round towards zero."""
    inputs = on_axis(inputs, attributes)
    dividend, divisor = inputs
    if are_constants(inputs) and not is_floating(dividend) and np.all(divisor != 0):
        return _truncated_quotient(dividend, divisor)
    return lax.div(*jnp.broadcast_arrays(dividend, divisor))


def _constant_power(base: Any, exponent: float) -> Any:
    """`base` to a power known beforehand, where something cheaper than pow is as exact."""
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
def pow_(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """First tensor to the power of the second."""
    base, exponent = on_axis(inputs, attributes)
    if isinstance(exponent, np.ndarray) and exponent.size == 1 and is_floating(base):
        result = _constant_power(jnp.asarray(base), float(exponent.reshape(())))
        if result is not None:
            return jnp.broadcast_to(result, jnp.broadcast_shapes(base.shape, exponent.shape))
    if not is_floating(base):
        return jnp.power(base, exponent)
    # JAX's derivatives of 0 ** 0 are NaN; Paddle's are zero in both arguments.
    zero_to_zero = (base == 0) & (exponent == 0)
    result = jnp.power(jnp.where(zero_to_zero, jnp.ones_like(base), base), exponent)
    return jnp.where(zero_to_zero, jnp.ones_like(result), result)


def _variadic(fold: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def rule(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
        return functools.reduce(fold, inputs)

    return rule


# jnp.maximum and jnp.minimum share the gradient evenly at a tie and give none at NaN, as Paddle.
lowering("ai.onnx", "Max")(_variadic(jnp.maximum))
lowering("ai.onnx", "Min")(_variadic(jnp.minimum))
lowering("ai.onnx", "Sum")(_variadic(jnp.add))


@lowering("ai.onnx", "Mean")
def mean(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Mean of any number of tensors, element by element."""
    return functools.reduce(jnp.add, inputs) / len(inputs)


@jax.custom_jvp
def absolute(x: Any) -> Any:
    """|x|, with derivative 0 at 0 as in Paddle; JAX's own is 1 there."""
    return lax.abs(x)


@absolute.defjvp
def _absolute_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    return lax.abs(x), tangent * lax.sign(x)


_ONNX: dict[str, Callable[[Any], Any]] = {
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
    "Sinh": lax.sinh,
    "Cosh": lax.cosh,
    "Asinh": lax.asinh,
    "Acosh": lax.acosh,
    "Atanh": lax.atanh,
}
for _op_type, _function in _ONNX.items():
    lowering("ai.onnx", _op_type)(unary(_function))

_GRAPHCORE: dict[str, Callable[[Any], Any]] = {
    "Log1p": lax.log1p,
    "Expm1": lax.expm1,
    "Round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "NearbyInt": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
}
for _op_type, _function in _GRAPHCORE.items():
    lowering("ai.graphcore", _op_type)(unary(_function))


@lowering("ai.onnx", "Mod")
def mod(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Remainder with the sign of the divisor, or of the dividend with ``fmod`` set."""
    return jnp.fmod(*inputs) if attributes.get("fmod", 0) else jnp.remainder(*inputs)


@lowering("ai.graphcore", "Fmod")
def fmod(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Remainder with the sign of the dividend."""
    return jnp.fmod(*inputs)


@lowering("ai.graphcore", "Remainder")
def remainder(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Remainder with the sign of the divisor."""
    return jnp.remainder(*inputs)


@lowering("ai.graphcore", "IncrementMod")
def increment_mod(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """``(x + increment) % modulus`` with the sign of the dividend, in the tensor's dtype."""
    x = jnp.asarray(inputs[0])
    increment, modulus = (
        jnp.asarray(attributes[name]).astype(x.dtype) for name in ("increment", "modulus")
    )
    return jnp.fmod(x + increment, modulus)


@lowering("ai.graphcore", "Atan2")
def atan2(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Angle of the point (second input, first input)."""
    return jnp.arctan2(*inputs)


@lowering("ai.graphcore", "Scale")
def scale(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Tensor times the attribute ``scale``, in the tensor's dtype."""
    return (jnp.asarray(inputs[0]) * float(attributes["scale"])).astype(inputs[0].dtype)


@lowering("ai.graphcore", "ScaledAdd")
def scaled_add(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """``s0 * T0 + s1 * T1``; the scales are inputs 2 and 3, or attributes that default to 1."""
    scales = [
        float(attributes.get(f"scale{i}", 1.0)) if given is None else given
        for i, given in enumerate((input_or_none(inputs, 2), input_or_none(inputs, 3)))
    ]
    first, second = (
        jnp.asarray(tensor) if isinstance(factor, float) and factor == 1.0 else tensor * factor
        for tensor, factor in zip(inputs[:2], scales, strict=True)
    )
    return (first + second).astype(inputs[0].dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _clip(x: Any, lower: float, upper: float) -> Any:
    return jnp.minimum(jnp.maximum(x, lower), upper)


@_clip.defjvp
def _clip_jvp(lower: float, upper: float, primals: Any, tangents: Any) -> Any:
    # Paddle's clip_grad passes the gradient at the bounds themselves.
    (x,), (tangent,) = primals, tangents
    inside = (x >= lower) & (x <= upper)
    return _clip(x, lower, upper), jnp.where(inside, tangent, jnp.zeros_like(tangent))


@lowering("ai.onnx", "Clip")
def clip(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Tensor limited to [min, max]: constant inputs 1 and 2 (opset 11) or attributes (opset 6)."""
    bounds: list[Any] = []
    for index, name in ((1, "min"), (2, "max")):
        if input_or_none(inputs, index) is not None:
            value: Any = context.static(inputs, index, name)
            if value.size != 1:
                raise LoweringError(
                    f"{where_in_program(context)}: input {index}, {name}, must be one number, "
                    f"got shape {value.shape}. Use Min and Max for a bound of several elements."
                )
            value = value.reshape(()).item()
        else:
            value = attributes.get(name)
        bounds.append(value)
    x = jnp.asarray(inputs[0])
    if is_floating(x):
        lowest, highest = -float("inf"), float("inf")
    else:
        lowest, highest = int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max)
    return _clip(
        x, lowest if bounds[0] is None else bounds[0], highest if bounds[1] is None else bounds[1]
    )


@lowering("ai.onnx", "Where")
def where(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Second input where the first is true, else the third."""
    result = array_module(inputs).where(*inputs)
    return np.asarray(result) if are_constants(inputs) else result
