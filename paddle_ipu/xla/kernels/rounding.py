"""Stochastic rounding by the kernel of ``simd/rounding.inc``, as a JAX function."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.kernels import library

_DROPPED = {"float16": 13, "bfloat16": 16}
"""Bits of a float32 significand that a type does not have."""


def has_kernel() -> bool:
    """Whether this processor has the kernel."""
    return library.lanes() > 0


def rounded(x: jax.Array, site: jax.Array, dtype: str) -> jax.Array:
    """Calls the kernel.

    Args:
        x: float32, of any shape.
        site: uint32 [2], the words of this rounding.
        dtype: ``float16`` or ``bfloat16``.

    Returns:
        float32 numbers of `dtype`, of x's shape.
    """
    kind = jax.ShapeDtypeStruct(x.shape, jnp.float32)  # type: ignore[no-untyped-call]
    # What is mapped has a site of its own for each.
    call = jax.ffi.ffi_call(library.ROUNDING_TARGET, kind, vmap_method="broadcast_all")
    spec = np.asarray([_DROPPED[dtype], library.threads(), library.lanes()], np.int64)
    result: jax.Array = call(x, site, spec=spec)
    return result
