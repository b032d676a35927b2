"""Integers of 64 bits on the IPU Model, and conversions to integers as in C.

JAX computes in 32 bits unless x64 is enabled. It is enabled here in a ``with`` block around
each operation on Paddle's int64 arrays, so that neither the floats of a program nor a user's own
JAX code are affected.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = jax.Array | np.ndarray[Any, Any]

_INT32 = np.iinfo(np.int32)
_WIDE = ("int64", "uint64")


def allowed(wanted: bool = True) -> AbstractContextManager[object]:
    """A context in which JAX has arrays of 64-bit integers, or has none."""
    context: AbstractContextManager[object] = jax.enable_x64(wanted)
    return context


def allowed_if(needed: bool) -> AbstractContextManager[object]:
    """A context in which JAX has arrays of 64-bit integers if `needed`; else nothing changes."""
    return allowed() if needed else nullcontext()


def is_wide(array: Array | None) -> bool:
    """Whether an array, or a tracer, has integers of 64 bits."""
    return array is not None and array.dtype.name in _WIDE


def widened(array: Array) -> jax.Array:
    """An array of integers as int64."""
    with allowed():
        return jnp.asarray(array).astype(np.int64)


def narrowed(array: Array) -> Array:
    """The array, integers of 64 bits as int32; others as they are."""
    return array.astype(np.int32) if is_wide(array) else array


def saturated(array: jax.Array) -> jax.Array:
    """int64 as int32, clamped to its range; no valid index is near the ends of that."""
    with allowed():
        low, high = np.int64(_INT32.min), np.int64(_INT32.max)
        return lax.clamp(low, array, high).astype(np.int32)  # fmt: skip


def selected(where: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """``jnp.where(where, new, old)`` for arrays of one dtype, 64-bit integers included."""
    with allowed_if(is_wide(new)):
        return jnp.where(where, new, old)


def as_in_c(array: Array, to: np.dtype[Any]) -> Array:
    """Numbers as integers of type `to`, as C converts on x86 and Paddle's CPU kernels do.

    Floats out of the range of int64, or of int32 for the narrower types, and NaN become the
    smallest number of that range; types narrower than int32 then keep its lower bits. XLA takes
    the nearest number instead, and 0 for NaN.
    """
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array.astype(to)
    wide = to.name in (*_WIDE, "uint32")
    middle, smallest = (np.int64, -(2**63)) if wide else (np.int32, _INT32.min)
    if isinstance(array, np.ndarray):
        fits = (array >= smallest) & (array < -float(smallest))
        return np.where(fits, np.where(fits, array, 0).astype(middle), smallest).astype(to)
    with allowed_if(wide):
        # XLA's conversion already makes the smallest number of what is too small.
        limit = jnp.asarray(-float(smallest), array.dtype)
        whole = jnp.where(array < limit, array.astype(middle), middle(smallest))
        return whole.astype(to)
