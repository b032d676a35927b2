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
    """Softmax of x [rows, columns] in float32, each row by itself, as softmax.h has it.

    Attributes:
        threads: among how many the rows may be shared out.
    """

    rows: int
    columns: int
    threads: int

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """int64 [3]."""
        return np.asarray(astuple(self), np.int64)


def softmax_of(spec: SoftmaxSpec, x: Any) -> Any:
    """The result of a spec, of the shape of `x`: float32, any shape of rows x columns elements."""
    kind = jax.ShapeDtypeStruct(x.shape, jnp.float32)  # type: ignore[no-untyped-call]
    return jax.ffi.ffi_call(library.SOFTMAX_TARGET, kind)(x, spec=spec.numbers)
