"""Integers of 64 bits on the IPU Model, where JAX has them, and conversions to integers as C's.

JAX computes in 32 bits unless it is told otherwise. It is told here, for the arrays of Paddle's
int64 alone and within a ``with``, so that neither the floats of a program nor a user's own JAX
notice anything of it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_INT32 = np.iinfo(np.int32)
_WIDE = ("int64", "uint64")


def allowed(wanted: bool = True) -> AbstractContextManager[Any]:
    """Within it JAX has arrays of 64-bit integers, or has none."""
    context: AbstractContextManager[Any] = jax.enable_x64(wanted)
    return context


def allowed_if(needed: bool) -> AbstractContextManager[Any]:
    """Within it JAX has arrays of 64-bit integers where they are needed; else nothing changes."""
    return allowed() if needed else nullcontext()


def is_wide(array: Any) -> bool:
    """Whether an array, or a tracer, has integers of 64 bits."""
    return array is not None and array.dtype.name in _WIDE


def widened(array: Any) -> jax.Array:
    """An array of integers as int64."""
    with allowed():
        return jnp.asarray(array).astype(np.int64)


def narrowed(array: Any) -> Any:
    """An array whose integers have no more than 32 bits."""
    return array.astype(np.int32) if is_wide(array) else array


def saturated(array: jax.Array) -> jax.Array:
    """int64 as int32: a number beyond becomes the nearest there is, which no index reaches."""
    with allowed():
        low, high = np.int64(_INT32.min), np.int64(_INT32.max)
        return lax.clamp(low, array, high).astype(np.int32)  # fmt: skip


def selected(where: jax.Array, new: Any, old: Any) -> jax.Array:
    """``where`` of arrays of one dtype."""
    with allowed_if(is_wide(new)):
        return jnp.where(where, new, old)


def as_in_c(array: Any, to: np.dtype[Any]) -> Any:
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
        # What is too small is the smallest by XLA's conversion.
        limit = jnp.asarray(-float(smallest), array.dtype)
        whole = jnp.where(array < limit, array.astype(middle), middle(smallest))
        return whole.astype(to)
