"""Lowerings of special functions, with Paddle's derivative where JAX has another or none."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings import gamma
from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, Single, binary, is_floating, unary
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

_NEXT_TO_ZERO = 1e-30
"""Below it ``x`` and ``x / 2`` may not both be normal numbers."""


@jax.custom_jvp
def _i0e(x: jax.Array) -> jax.Array:
    return lax.bessel_i0e(x)


@_i0e.defjvp
def _i0e_jvp(primals: Single, tangents: Single) -> Pair:
    # At zero the slope on the side of its sign, as Paddle's.
    (x,), (tangent,) = primals, tangents
    out = _i0e(x)
    return out, tangent * (lax.bessel_i1e(x) - jnp.copysign(out, x))


@jax.custom_jvp
def _erf_inv(x: jax.Array) -> jax.Array:
    """The inverse error function; infinite at and beyond the bounds of (-1, 1)."""
    return jnp.where(jnp.abs(x) < 1, lax.erf_inv(x), lax.sign(x) * jnp.inf)


@_erf_inv.defjvp
def _erf_inv_jvp(primals: Single, tangents: Single) -> Pair:
    # Infinite at the bounds, as the slope is.
    (x,), (tangent,) = primals, tangents
    out = _erf_inv(x)
    return out, tangent * (math.sqrt(math.pi) / 2) * jnp.exp(out * out)


@jax.custom_jvp
def _i0(x: jax.Array) -> jax.Array:
    return jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x)


@_i0.defjvp
def _i0_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    return _i0(x), tangent * _i1(x)


@jax.custom_jvp
def _i1(x: jax.Array) -> jax.Array:
    return jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x)


@_i1.defjvp
def _i1_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    out = _i1(x)
    return out, tangent * _half_at_zero(x, _i0(x) - out / x)


@jax.custom_jvp
def _i1e(x: jax.Array) -> jax.Array:
    return lax.bessel_i1e(x)


@_i1e.defjvp
def _i1e_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    out = _i1e(x)
    slope = lax.bessel_i0e(x) - out * (lax.sign(x) + 1 / x)
    return out, tangent * _half_at_zero(x, slope)


def _half_at_zero(x: jax.Array, slope: jax.Array) -> jax.Array:
    """`slope`, but one half next to zero, where ``i1(x) / x`` is of two that are too small."""
    return jnp.where(jnp.abs(x) < _NEXT_TO_ZERO, jnp.full_like(x, 0.5), slope)


@jax.custom_jvp
def _log_gamma(x: jax.Array) -> jax.Array:
    return gamma.log_gamma(x)


@_log_gamma.defjvp
def _log_gamma_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    return _log_gamma(x), tangent * _digamma(x)


@jax.custom_jvp
def _digamma(x: jax.Array) -> jax.Array:
    return gamma.digamma(x)


@_digamma.defjvp
def _digamma_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    return _digamma(x), tangent * gamma.polygamma(x, 1)


for _op_type, _function in (
    ("Digamma", _digamma),
    ("Lgamma", _log_gamma),
    ("ErfInv", _erf_inv),
    ("BesselI0", _i0),
    ("BesselI0e", _i0e),
    ("BesselI1", _i1),
    ("BesselI1e", _i1e),
):
    lowering("ai.paddle_ipu", _op_type)(unary(_function))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _polygamma(x: jax.Array, n: int) -> jax.Array:
    if n == 0:
        return _digamma(x)
    return gamma.polygamma(x, n)


@_polygamma.defjvp
def _polygamma_jvp(n: int, primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    return _polygamma(x, n), tangent * _polygamma(x, n + 1)


@lowering("ai.paddle_ipu", "Polygamma")
def polygamma(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The n-th derivative of digamma."""
    return _polygamma(jnp.asarray(inputs[0]), int(attributes["n"]))


@lowering("ai.paddle_ipu", "Gammaincc")
def gammaincc(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Upper incomplete gamma function of order input 0; the order has no derivative."""
    order, x = jnp.broadcast_arrays(lax.stop_gradient(inputs[0]), inputs[1])
    return lax.igammac(order, x)


@lowering("ai.paddle_ipu", "NextAfter")
def next_after(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The floating-point number that follows the first input towards the second."""
    return jnp.nextafter(*(lax.stop_gradient(value) for value in inputs))


@jax.custom_jvp
def _copy_sign(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.copysign(x, y)


@_copy_sign.defjvp
def _copy_sign_jvp(primals: Pair, tangents: Pair) -> Pair:
    # The sign of y times that of x, 0 at zero.
    (x, y), (tangent, _) = primals, tangents
    return _copy_sign(x, y), tangent * _copy_sign(jnp.ones_like(x), y) * lax.sign(x)


@lowering("ai.paddle_ipu", "CopySign")
def copy_sign(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """|x| with the sign of y."""
    if not is_floating(inputs[0]):
        x, y = inputs
        return jnp.where(y < 0, -jnp.abs(x), jnp.abs(x))
    return _copy_sign(*jnp.broadcast_arrays(*inputs))


# Zero where the second input is negative or not less than the number of bits.
lowering("ai.paddle_ipu", "LeftShift")(
    binary(lambda x, y: lax.shift_left(*jnp.broadcast_arrays(x, y)))
)


@lowering("ai.paddle_ipu", "RightShift")
def right_shift(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``x >> y``, filled with the sign where ``arithmetic`` is set, else with zeros."""
    pair = jnp.broadcast_arrays(*inputs)
    if attributes.get("arithmetic", 1):
        return lax.shift_right_arithmetic(*pair)
    return lax.shift_right_logical(*pair)
