"""Products with half partials by the kernel of ``simd/half_product.inc``, as a JAX function."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.kernels import library


@dataclass(frozen=True, slots=True)
class HalfProductSpec:
    """X @ Y of each of some batches, summed in float16; the fields are half_product.h's.

    Attributes:
        batches: how many products, one behind the other.
        rows: of X [rows, depth] and of the result [rows, columns].
        columns: of Y [depth, columns] and of the result.
        depth: how many products an element of the result is the sum of.
        x_turned: 1 where X is given as [depth, rows].
        y_turned: 1 where Y is given as [columns, depth].
        threads: how many of XLA's threads may share the work.
        lanes: floats of a vector of the kernel: 16 with AVX-512, 8 with AVX2.
    """

    batches: int
    rows: int
    columns: int
    depth: int
    x_turned: int
    y_turned: int
    threads: int
    lanes: int


def has_kernel() -> bool:
    """Whether this processor has the kernel."""
    return library.lanes() > 0


def multiplied(
    x: jax.Array, y: jax.Array, x_turned: bool = False, y_turned: bool = False
) -> jax.Array:
    """Calls the kernel.

    Args:
        x: float32 [batches, rows, depth]; [batches, depth, rows] with `x_turned`.
        y: float32 [batches, depth, columns]; [batches, columns, depth] with `y_turned`.
        x_turned: see `x`.
        y_turned: see `y`.

    Returns:
        float32 [batches, rows, columns], numbers of float16.
    """
    batches, rows, depth = np.take(x.shape, [0, 2, 1] if x_turned else [0, 1, 2]).tolist()
    columns = y.shape[1 if y_turned else 2]
    spec = HalfProductSpec(
        batches, rows, columns, depth, x_turned, y_turned, library.threads(), library.lanes()
    )
    kind = jax.ShapeDtypeStruct((batches, rows, columns), jnp.float32)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call(library.HALF_PRODUCT_TARGET, kind, vmap_method="sequential")
    result: jax.Array = call(x, y, spec=_numbers(spec))
    return result


def _numbers(spec: HalfProductSpec) -> np.ndarray[Any, Any]:
    """int64 [8]."""
    return np.asarray(astuple(spec), np.int64)
