"""Attention by the kernel of ``avx512/attention.cc``, as a JAX function."""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.kernels import library

Strides = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """gain softmax(scale Q Kᵀ + mask) V in float32, of each head, as attention.h has it.

    Strides are in elements: those of an example, a head and a row. A row's elements are neighbours.

    Attributes:
        offsets: elements in front of Q, K and V.
        rows: of Q [rows, depth] and of the result [rows, width].
        columns: rows of K [columns, depth] and V [columns, width].
        mask: strides of what is added to the scores: of an example, a head, a row and a column;
            None where nothing is.
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
    scale: float
    gain: float = 1.0
    offsets: Strides = (0, 0, 0)

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """int64 [29]; the last two have the bits of `scale` and `gain`."""
        sizes = astuple(self)[:6]
        strides = (*self.query, *self.key, *self.value, *self.result)
        mask = (0, 0, 0, 0, 0) if self.mask is None else (1, *self.mask)
        factors = struct.unpack("2q", struct.pack("2d", self.scale, self.gain))
        return np.asarray(
            [*sizes, *strides, *self.offsets, *mask, self.threads, *factors], np.int64
        )


def attended(
    spec: AttentionSpec, query: Any, key: Any, value: Any, mask: Any, shape: tuple[int, ...]
) -> Any:
    """The result of a spec.

    Args:
        query: float32, any shape in which the spec's strides lead to its rows; so are `key` and
            `value`, and `mask` where the spec has one.
        shape: of the result.
    """
    arguments = [query, key, value] if spec.mask is None else [query, key, value, mask]
    kind = jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
    return jax.ffi.ffi_call(library.ATTENTION_TARGET, kind)(*arguments, spec=spec.numbers)
