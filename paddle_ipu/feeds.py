"""Feeds of a compiled program: what each is declared as, and values in the device's dtype."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from paddle_ipu.errors import FeedError
from paddle_ipu.scope import from_bits

Array = np.ndarray[Any, Any]
_INT32 = np.iinfo(np.int32)
_FEW = 32


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed of a compiled program.

    Attributes:
        tensor: PopART input, None for a feed that nothing reads.
        shape: of one micro-batch.
        declared: dtype of ``paddle.static.data``.
        device: dtype on the device.
    """

    tensor: str | None
    shape: tuple[int, ...]
    declared: str
    device: str


def converted(name: str, known: Feed, value: Any) -> Array:
    """A feed's value in the device's dtype, of whatever shape.

    Raises:
        FeedError: it cannot be had in that dtype.
    """
    if value is None:
        raise FeedError(
            f"feed {name!r} is None: expected an array of {known.declared} in every run."
        )
    array = np.asarray(value)
    if known.declared == "bfloat16" and array.dtype == np.uint16:
        array = from_bits(np.ascontiguousarray(array))
    if array.dtype != known.device:
        casting: Literal["safe", "same_kind"] = "safe" if hasattr(value, "dtype") else "same_kind"
        array = _narrowed(name, known, array, casting)
    return array


def _narrowed(name: str, known: Feed, array: Array, casting: Literal["safe", "same_kind"]) -> Array:
    """The array in the device's dtype; `casting` is same_kind for lists, which have no dtype."""
    device, fits, bounded = _way(array.dtype, known.declared, known.device, casting)
    if not fits and not _is_exact(array, known.declared):
        raise FeedError(
            f"feed {name!r}: got dtype {array.dtype.name}, expected {known.declared}. Convert it, "
            f"for instance with array.astype({known.declared!r})."
        )
    if bounded and array.size:
        # A few numbers are looked through faster by Python.
        few = array.size <= _FEW
        numbers = array.ravel().tolist() if few else [int(array.min()), int(array.max())]
        low, high = min(numbers), max(numbers)
        if low < _INT32.min or high > _INT32.max:
            raise FeedError(
                f"feed {name!r} holds {low if low < _INT32.min else high}, which does not fit the "
                "32-bit integers of an IPU."
            )
    return array.astype(device)


@functools.lru_cache(256)
def _way(
    given: np.dtype[Any], declared: str, wanted: str, casting: Literal["safe", "same_kind"]
) -> tuple[np.dtype[Any], bool, bool]:
    """The device's dtype, whether one dtype may become it, and whether numbers may not fit it."""
    device = np.dtype(wanted)
    integers = np.issubdtype(given, np.integer) and np.issubdtype(device, np.integer)
    fits = integers or np.can_cast(given, device, casting) or given.name == declared
    return device, fits, integers and device == np.int32


def _is_exact(array: Array, declared: str) -> bool:
    """Whether float64 numbers, Python's own, are all numbers of the declared type of floats."""
    if array.dtype != np.float64 or declared not in ("float16", "float32"):
        return False
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(declared).astype(np.float64), array, equal_nan=True)
