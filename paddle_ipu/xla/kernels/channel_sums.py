"""Sums over rows by channel, by the kernels of ``simd/channel_sums.inc``, as JAX functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.kernels import library

_LEAST = 1 << 15
"""Fewer elements are one block of the kernels, which threads do not share. XLA's sums take a few
microseconds more there, and no gradient has to be written to memory for them."""

Pair = tuple[jax.Array, jax.Array]

_Operands = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def has_kernel(x: jax.Array, sites: int = 1) -> bool:
    """Whether this processor has the kernels, and they pay for x [..., channels].

    Args:
        sites: arrays that x is, one behind the other, each with sums of its own.
    """
    return x.dtype == jnp.float32 and x.size // sites >= _LEAST and library.lanes() > 0


@jax.custom_vjp
def moments(x: jax.Array) -> Pair:
    """The means and population variances of x [..., channels] float32, by channel: [channels]."""
    return _call(library.MOMENTS_TARGET, x)(x, spec=_numbers(x))


def _moments_forward(x: jax.Array) -> tuple[Pair, Pair]:
    mean, variance = moments(x)
    return (mean, variance), (x, mean)


def _moments_backward(kept: Pair, incoming: Pair) -> tuple[jax.Array]:
    (x, mean), (of_mean, of_variance) = kept, incoming
    count = x.size // x.shape[-1]
    return ((of_mean + 2 * of_variance * (x - mean)) / count,)


moments.defvjp(_moments_forward, _moments_backward)


@jax.custom_vjp
def gradient_sums(gradient: jax.Array, x: jax.Array, mean: jax.Array, inverse: jax.Array) -> Pair:
    """What batch norm's backward sums, by channel.

    Args:
        gradient: of the normalised x, float32 of its shape.
        x: float32 [..., channels].
        mean: of x, [channels].
        inverse: 1 / standard deviation, [channels].

    Returns:
        The sums of the gradient, and of the gradient times ``(x - mean) * inverse``: [channels].
    """
    call = _call(library.GRADIENT_SUMS_TARGET, x)
    return call(gradient, x, mean, inverse, spec=_numbers(x))


def _sums_forward(
    gradient: jax.Array, x: jax.Array, mean: jax.Array, inverse: jax.Array
) -> tuple[Pair, tuple[_Operands, Pair]]:
    sums = gradient_sums(gradient, x, mean, inverse)
    return sums, ((gradient, x, mean, inverse), sums)


def _sums_backward(kept: tuple[_Operands, Pair], incoming: Pair) -> _Operands:
    ((gradient, x, mean, inverse), (total, along)), (of_total, of_along) = kept, incoming
    of_deviations = gradient * (of_along * inverse)
    return (
        of_total + of_along * (x - mean) * inverse,
        of_deviations,
        -of_along * inverse * total,
        of_along * along / inverse,
    )


gradient_sums.defvjp(_sums_forward, _sums_backward)


def _call(target: str, x: jax.Array) -> Callable[..., Pair]:
    kind = jax.ShapeDtypeStruct(x.shape[-1:], jnp.float32)  # type: ignore[no-untyped-call]
    # What is mapped has sums of its own for each.
    call: Callable[..., Any] = jax.ffi.ffi_call(target, (kind, kind), vmap_method="broadcast_all")
    return call


def _numbers(x: jax.Array) -> library.Array:
    """int64 [4]: the fields of channel_sums.h's spec."""
    channels = x.shape[-1]
    return np.asarray([x.size // channels, channels, library.threads(), library.lanes()], np.int64)
