"""Arrays joined by the kernel of ``memory/concatenation.cc``, as a JAX function."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np

from paddle_ipu.xla.kernels import library


def joined(arrays: Sequence[jax.Array], axis: int) -> jax.Array:
    """Calls the kernel.

    Args:
        arrays: of one dtype, and of one shape but for the axis.
        axis: along which they are joined, from 0.
    """
    first = arrays[0].shape
    shape = (*first[:axis], sum(array.shape[axis] for array in arrays), *first[axis + 1 :])
    kind = jax.ShapeDtypeStruct(shape, arrays[0].dtype)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call(library.CONCATENATION_TARGET, kind)
    spec = np.asarray([math.prod(first[:axis]), library.threads()], np.int64)
    result: jax.Array = call(*arrays, spec=spec)
    return result
