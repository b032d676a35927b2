"""Half precision on the IPU Model: float32 arithmetic, each result rounded once to half.

To the nearest as NumPy casts, or with stochastic rounding (``stochastic.py``) to either side.
Inside a step a FLOAT16 or BFLOAT16 tensor is a float32 array of numbers of that type only.
Feeds and anchors are arrays of the type itself, and so are weights that runs change. The gradient
of a half tensor is half as well, so the derivative of rounding is rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from paddle_ipu.xla.precision import stochastic
from paddle_ipu.xla.precision.integers import Array

ArrayT = TypeVar("ArrayT", jax.Array, np.ndarray[Any, Any])

NARROW: Mapping[ir.DataType, str] = {
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
}
"""Element types that are computed in float32, and NumPy's names of them."""

_DTYPES = {name: kind.numpy() for kind, name in NARROW.items()}

COMPILER_OPTIONS: Mapping[str, bool] = {"xla_allow_excess_precision": False}
"""For XLA, which otherwise removes a conversion to half and back."""

MOVES = frozenset({
    "Call", "Concat", "Detach", "Flatten", "Identity", "If", "IpuCopy", "Loop", "Neg", "Relu",
    "Reshape", "Scan", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that only move elements or change signs, and whose derivative does no more than that.

Rounding before them is rounding after them.
"""

PICKS = frozenset({
    "Abs", "ArgSort", "Expand", "Gather", "GatherND", "Max", "MaxPool", "Min", "Pad", "Tile",
    "TopK", "Where",
})  # fmt: skip
"""Operators whose results are among their inputs' elements, and whose derivative may add."""


def to_float16(x: jax.Array) -> jax.Array:
    """float32 numbers rounded to float16's as NumPy casts: to the nearest, ties to even.

    Only in programs compiled with :data:`COMPILER_OPTIONS`. ``reduce_precision`` would turn
    float16's subnormal numbers into zeros, and takes three times as long on a CPU.
    """
    near = lax.convert_element_type(lax.convert_element_type(x, jnp.float16), jnp.float32)
    # The select changes nothing. XLA counts a widening conversion as free and repeats it, with all
    # in front of it, in each fusion that reads it: code and compile time would grow with the square
    # of the layers. An operation of two operands it keeps in memory.
    return lax.select(lax.ne(x, x), x, near)


def to_bfloat16(x: jax.Array) -> jax.Array:
    """float32 numbers rounded to bfloat16's: to the nearest, ties to even."""
    # As to_float16, an operation of several operands; that of one would be ``reduce_precision``.
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    nearly_half = jnp.uint32(0x7FFF) + ((bits >> 16) & jnp.uint32(1))
    near = lax.bitcast_convert_type((bits + nearly_half) & jnp.uint32(0xFFFF0000), jnp.float32)
    # Added to, the bits of a NaN may become those of a number.
    return lax.select(lax.ne(x, x), x, near)


_ROUND: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "float16": to_float16,
    "bfloat16": to_bfloat16,
}


def _in_half(x: jax.Array, site: jax.Array | None, dtype: str) -> jax.Array:
    """float32 numbers as numbers of `dtype`: the nearest, or by a site one of the two around."""
    return _ROUND[dtype](x) if site is None else stochastic.nearby(x, site, dtype)


def _backward(dtype: str, site: jax.Array | None, cotangent: jax.Array) -> tuple[jax.Array, None]:
    # Random words of its own: the forward rounding had the others.
    return _in_half(cotangent, None if site is None else ~site, dtype), None


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _rounded(x: jax.Array, site: jax.Array | None, dtype: str) -> jax.Array:
    return _in_half(x, site, dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _with_rounded_cotangent(x: jax.Array, site: jax.Array | None, dtype: str) -> jax.Array:
    return x


_rounded.defvjp(lambda x, site, dtype: (_in_half(x, site, dtype), site), _backward)
_with_rounded_cotangent.defvjp(lambda x, site, dtype: (x, site), _backward)


def rounded(x: jax.Array, dtype: str) -> jax.Array:
    """A float32 array's numbers in `dtype`; cotangents are rounded likewise.

    To the nearest, or at random inside :func:`stochastic.drawing_from`.
    """
    return _rounded(x, stochastic.next_site(), dtype)


def with_rounded_cotangent(x: jax.Array, dtype: str) -> jax.Array:
    """The array itself, whose cotangents are rounded to `dtype`."""
    return _with_rounded_cotangent(x, stochastic.next_site(), dtype)


def nearest(x: jax.Array, dtype: str) -> jax.Array:
    """float32 numbers rounded to the nearest of `dtype`; as they are for float32."""
    return _ROUND[dtype](x) if dtype in _ROUND else x


def is_narrow(array: object) -> bool:
    """Whether a value is an array of one of the types that are computed in float32."""
    return hasattr(array, "dtype") and array.dtype.name in _DTYPES


def widened(array: ArrayT) -> ArrayT:
    """An array of float16 or bfloat16 as float32; any other as it is."""
    return array.astype(np.float32) if is_narrow(array) else array


def stored(array: jax.Array, dtype: str | None) -> jax.Array:
    """A float32 array rounded to `dtype`, of that dtype; as it is where `dtype` is not narrow."""
    if dtype is None or dtype not in _DTYPES or array.dtype.name == dtype:
        return array
    # Rounded first: XLA may keep the precision that a conversion alone takes away.
    exact = _in_half(jnp.asarray(array, jnp.float32), stochastic.next_site(), dtype)
    return exact.astype(_DTYPES[dtype])


def kept(array: jax.Array, like: jax.Array) -> jax.Array:
    """An array converted to the dtype of another, rounded where that is half."""
    result = stored(array, like.dtype.name) if is_narrow(like) else array
    return result if result.dtype == like.dtype else result.astype(like.dtype)


class Narrow:
    """Which tensors of a graph are half, and what is done to them.

    Args:
        graph: a PopART graph whose tensors are typed.
    """

    def __init__(self, graph: ir.Graph) -> None:
        values = [*graph.inputs, *graph.initializers.values()]
        values += [value for node in graph for value in (*node.inputs, *node.outputs) if value]
        self.dtypes: dict[str, str] = {
            str(value.name): NARROW[value.dtype]
            for value in values
            if value.dtype is not None and value.dtype in NARROW
        }
        self.shared: frozenset[str] = frozenset()

    def count_readers(self, reads: Iterable[Collection[str | None]]) -> None:
        """Notes which tensors several nodes read: their gradients are sums of rounded parts."""
        seen: set[str] = set()
        shared: set[str] = set()
        for names in reads:
            for name in names:
                if name is not None:
                    (shared if name in seen else seen).add(name)
        self.shared = frozenset(shared)

    def source(self, name: str, array: Array) -> Array:
        """A weight or feed as the graph reads it."""
        dtype = self.dtypes.get(name)
        if dtype is None:
            return array
        array = array.astype(np.float32) if is_narrow(array) else array
        return array if isinstance(array, np.ndarray) else with_rounded_cotangent(array, dtype)

    def operand(self, name: str, array: Array) -> Array:
        """A tensor as one of its readers reads it."""
        dtype = self.dtypes.get(name)
        if dtype is None or name not in self.shared or isinstance(array, np.ndarray):
            return array
        return with_rounded_cotangent(array, dtype)

    def result(self, op_type: str, name: str, array: Array) -> Array:
        """An operator's result, rounded to the type of the tensor it becomes."""
        dtype = self.dtypes.get(name)
        if dtype is None:
            return array
        if isinstance(array, np.ndarray):
            with np.errstate(over="ignore"):
                return array.astype(_DTYPES[dtype]).astype(np.float32)
        array = jnp.asarray(array, jnp.float32)
        if op_type in MOVES:
            return array
        return (with_rounded_cotangent if op_type in PICKS else rounded)(array, dtype)

    def stored(self, name: str, array: jax.Array) -> jax.Array:
        """A tensor as it leaves the step."""
        return stored(array, self.dtypes.get(name))
