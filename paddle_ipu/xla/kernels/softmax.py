"""Softmax of rows by the kernel of ``avx512/softmax.cc``, as a JAX function."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.kernels import library


@dataclass(frozen=True, slots=True)
class SoftmaxSpec:
    """Softmax of each row of x [rows, columns] in float32; the fields are softmax.h's.

    Attributes:
        rows: how many.
        columns: elements of a row.
        threads: how many of XLA's threads may share the rows.
    """

    rows: int
    columns: int
    threads: int

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """int64 [3], as the kernel reads it."""
        return np.asarray(astuple(self), np.int64)


def softmax_of(spec: SoftmaxSpec, x: jax.Array) -> jax.Array:
    """Calls the kernel on float32 x, of any shape with rows * columns elements."""
    kind = jax.ShapeDtypeStruct(x.shape, jnp.float32)  # type: ignore[no-untyped-call]
    result: jax.Array = jax.ffi.ffi_call(library.SOFTMAX_TARGET, kind)(x, spec=spec.numbers)
    return result
