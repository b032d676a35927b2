"""Stochastic rounding to half: up or down at random, right on average.

A number between two neighbours of half goes to the upper one with the probability of its distance
from the lower, counted in their gap. Numbers of half itself stay, so do NaN and infinity; above the
largest finite number the next neighbour is infinity. PopART rounds so wherever float32 becomes
half: results, gradients, accumulated gradients and weights.

The random bits of one rounding follow from the micro-batch's key, from which rounding of the step
it is, and from the element's place, by integer arithmetic that is cheap beside a cryptographic
generator and fuses with what is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.kernels import rounding

_SALT = 0x5EED
_GOLDEN = 0x9E3779B9
_FINITE = 65504.0
_SMALLEST_NORMAL = 2.0**-14


class _Sites:
    """Numbers the roundings of one key, in the order in which JAX traces them."""

    def __init__(self, key: jax.Array) -> None:
        self._words = jax.random.key_data(jax.random.fold_in(key, _SALT)).astype(jnp.uint32)
        self._count = 0

    def next(self) -> jax.Array:
        """Two words that no other rounding of this key has."""
        self._count += 1
        step = (self._count * _GOLDEN) & 0xFFFFFFFF
        return self._words ^ jnp.asarray([step, self._count], jnp.uint32)


_sites: ContextVar[_Sites | None] = ContextVar("sites of stochastic rounding", default=None)


@contextmanager
def drawing_from(key: jax.Array | None) -> Iterator[None]:
    """What is traced inside rounds stochastically, by a key; None rounds to the nearest."""
    token = _sites.set(None if key is None else _Sites(key))
    try:
        yield
    finally:
        _sites.reset(token)


def draws() -> bool:
    """Whether what is traced here rounds stochastically."""
    return _sites.get() is not None


def next_site() -> jax.Array | None:
    """The words of the rounding that is traced next, uint32 [2]; None rounds to the nearest."""
    sites = _sites.get()
    return None if sites is None else sites.next()


def _mixed(word: jax.Array) -> jax.Array:
    """An invertible hash of 32 bits, in which each input bit changes half of the output bits.

    The constants are those of Wellons' lowbias32 (github.com/skeeto/hash-prospector).
    """
    word = (word ^ (word >> 16)) * np.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * np.uint32(0x846CA68B)
    return word ^ (word >> 16)


def random_bits(site: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Independent uniform uint32 words of a shape."""
    place = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return _mixed(_mixed(place ^ site[0]) + site[1])


def _cut(x: jax.Array, bits: jax.Array, dropped: int) -> jax.Array:
    """Normal numbers rounded at random to a significand without its last `dropped` bits."""
    word = lax.bitcast_convert_type(x, jnp.uint32)
    mask = np.uint32((1 << dropped) - 1)
    # A carry goes into the exponent, where it belongs.
    return lax.bitcast_convert_type((word + (bits & mask)) & ~mask, jnp.float32)


def to_float16(x: jax.Array, site: jax.Array) -> jax.Array:
    """float32 numbers as one of the two float16 numbers around each, at random."""
    bits = random_bits(site, x.shape)
    size = jnp.abs(x)
    normal = _cut(x, bits, 13)
    normal = jnp.where(jnp.abs(normal) > _FINITE, jnp.copysign(jnp.inf, x), normal)
    # Below 2**-14 float16 has steps of 2**-24.
    steps = jnp.where(size < _SMALLEST_NORMAL, size, 0.0) * 2.0**24
    whole = jnp.floor(steps)
    chance = (bits >> 8).astype(jnp.float32) * 2.0**-24
    whole = whole + (chance < steps - whole)
    small = jnp.copysign(whole * 2.0**-24, x)
    return jnp.where(size < _SMALLEST_NORMAL, small, jnp.where(jnp.isfinite(x), normal, x))


def to_bfloat16(x: jax.Array, site: jax.Array) -> jax.Array:
    """float32 numbers as one of the two bfloat16 numbers around each, at random."""
    return jnp.where(jnp.isfinite(x), _cut(x, random_bits(site, x.shape), 16), x)


_ROUND: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "float16": to_float16,
    "bfloat16": to_bfloat16,
}


def nearby(x: jax.Array, site: jax.Array, dtype: str) -> jax.Array:
    """float32 numbers as numbers of `dtype`, at random.

    A compiled kernel gives the same numbers as XLA, which has some hundred instructions to compile
    for each rounding.
    """
    return rounding.rounded(x, site, dtype) if rounding.has_kernel() else _ROUND[dtype](x, site)
