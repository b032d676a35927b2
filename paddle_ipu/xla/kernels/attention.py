"""Attention by the kernel of ``simd/attention.inc``, as a JAX function."""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from paddle_ipu.xla.kernels import library

Strides = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """gain softmax(scale Q Kᵀ + mask) V of each head in float32; the fields are attention.h's.

    Strides are in elements, of an example, a head and a row. The elements of a row are contiguous.

    Attributes:
        batches: examples.
        heads: of each example.
        rows: of Q [rows, depth] and of the result [rows, width].
        columns: rows of K [columns, depth] and V [columns, width].
        depth: elements of a row of Q and K.
        width: elements of a row of V and of the result.
        query: strides of Q; so have `key`, `value` and `result` theirs.
        mask: strides of the mask: of an example, a head, a row and a column, each possibly 0; None
            without a mask.
        threads: how many of XLA's threads may share the work.
        lanes: floats of a vector of the kernel: 16 with AVX-512, 8 with AVX2.
        scale: factor on the scores, before the mask is added.
        gain: factor on the result.
        offsets: elements in front of Q, K and V in their arrays.
    """

    batches: int
    heads: int
    rows: int
    columns: int
    depth: int
    width: int
    query: Strides
    key: Strides
    value: Strides
    result: Strides
    mask: tuple[int, int, int, int] | None
    threads: int
    lanes: int
    scale: float
    gain: float = 1.0
    offsets: Strides = (0, 0, 0)

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """int64 [30], as the kernel reads it; the last two are the bits of `scale` and `gain`."""
        sizes = astuple(self)[:6]
        strides = (*self.query, *self.key, *self.value, *self.result)
        mask = (0, 0, 0, 0, 0) if self.mask is None else (1, *self.mask)
        factors = struct.unpack("2q", struct.pack("2d", self.scale, self.gain))
        return np.asarray(
            [*sizes, *strides, *self.offsets, *mask, self.threads, self.lanes, *factors], np.int64
        )


def attended(
    spec: AttentionSpec,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    mask: ArrayLike | None,
    shape: tuple[int, ...],
) -> jax.Array:
    """Calls the kernel.

    Args:
        spec: sizes, strides and factors.
        query: float32, of any shape; the spec's offset and strides locate its rows.
        key: likewise.
        value: likewise.
        mask: likewise, where the spec has one.
        shape: of the result, float32.
    """
    arguments = [query, key, value]
    if spec.mask is not None and mask is not None:
        arguments.append(mask)
    kind = jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call(library.ATTENTION_TARGET, kind)
    result: jax.Array = call(*arguments, spec=spec.numbers)
    return result
