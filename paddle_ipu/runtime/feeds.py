"""Feeds of a compiled program: what each is declared as, and values in the device's dtype."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from paddle_ipu.errors import FeedError
from paddle_ipu.runtime.feed_words import described
from paddle_ipu.runtime.scope import from_bits

Array = np.ndarray[Any, Any]
_NUMBERS = "biufcV"
"""Kinds of NumPy's dtypes that hold numbers; ``V`` are those of ml_dtypes."""
_LOWEST, _HIGHEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max
_FEW = 32
_ONLY_PICKS = (
    " The IPU Model has 64 bits for what a program computes with, and 32 for feeds that only pick "
    "elements, as ids and labels do."
)
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


# NumPy is slow to compare a type with a name.
dtype_of = functools.lru_cache(64)(np.dtype)


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed of a compiled program.

    Attributes:
        tensor: PopART input, None for a feed that nothing reads.
        shape: of one micro-batch.
        declared: dtype of ``paddle.static.data``.
        device: dtype on the device.
        has_own_rows: whether it was declared with them, and not with -1.
    """

    tensor: str | None
    shape: tuple[int, ...]
    declared: str
    device: str
    has_own_rows: bool = False


def numbers_of(what: str, value: Any, expected: str) -> Array:
    """What is fed as an array of whatever type of numbers.

    Args:
        what: the feed, as "feed 'x'".
        expected: the dtype that it is declared with.

    Raises:
        FeedError: it holds something else, or lists of several lengths.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        array = None
    if array is None or array.dtype.kind not in _NUMBERS or array.dtype.names is not None:
        raise FeedError(f"{what}: got {described(value)}, expected an array of {expected}.")
    return array


def converted(name: str, known: Feed, value: Any) -> Array:
    """A feed's value in the device's dtype, of whatever shape.

    Raises:
        FeedError: it cannot be had in that dtype.
    """
    if value is None:
        raise FeedError(
            f"feed {name!r} is None: expected an array of {known.declared} in every run."
        )
    array = numbers_of(f"feed {name!r}", value, known.declared)
    if known.declared == "bfloat16" and array.dtype == np.uint16:
        array = from_bits(np.ascontiguousarray(array))
    if array.dtype != dtype_of(known.device):
        casting: Literal["safe", "same_kind"] = "safe" if hasattr(value, "dtype") else "same_kind"
        array = _narrowed(name, known, array, casting)
    return array


def fitting(
    name: str, known: Feed, value: Any, micro_batches: int, axes: Mapping[str, int]
) -> Array:
    """A feed's value as a run takes it: in the device's dtype, in C order.

    Args:
        micro_batches: how many a run has.
        axes: what they are made up of, by the names of options.

    Raises:
        FeedError: it is of another dtype, or does not hold as many micro-batches.
    """
    if type(value) is np.ndarray and value.shape == known.shape and micro_batches == 1:
        dtype, wanted = value.dtype, dtype_of(known.device)
        if dtype == wanted:
            return np.asarray(value, order="C")
        if dtype == _INT64 and wanted == _INT32 and 0 < value.size <= _FEW:
            numbers = value.ravel().tolist()
            if min(numbers) >= _LOWEST and max(numbers) <= _HIGHEST:
                return value.astype(wanted, order="C")
    array = converted(name, known, value)
    if array.shape == known.shape and micro_batches == 1:
        return np.asarray(array, order="C")
    count = micro_batches * math.prod(known.shape)
    if array.size != count or not _fits(known, array.shape, micro_batches):
        raise _misfit(name, known, array, micro_batches, axes)
    return np.asarray(array, order="C")


def _fits(known: Feed, shape: tuple[int, ...], micro_batches: int) -> bool:
    """Whether an array of the right size holds one micro-batch after another.

    Its leading axes have to make up whole micro-batches; only of a single one, where nothing
    tells a transposed array otherwise, the other axes are compared as well.
    """
    if micro_batches == 1:
        return len(shape) != len(known.shape) or shape[1:] == known.shape[1:]
    leading = 1
    for dim in shape:
        if micro_batches % leading:
            return False
        leading *= dim
        if leading % micro_batches == 0:
            return True
    return not shape


def _misfit(
    name: str, known: Feed, array: Array, micro_batches: int, axes: Mapping[str, int]
) -> FeedError:
    shape = list(known.shape)
    got = f"feed {name!r}: got an array of shape {list(array.shape)}"
    if known.shape and array.shape[1:] == known.shape[1:] and array.ndim == len(shape):
        terms = {"micro-batch": shape[0], **axes}
        product = " x ".join(f"{term} {number}" for term, number in terms.items())
        options = "batches_per_step, accumulation_factor or replicated_graph_count."
        change = f"change the strategy's micro_batch_size, {options}"
        if known.has_own_rows:
            change = (
                f"change the strategy's {options} The program declares the micro-batch's rows; "
                f"make dimension 0 -1, paddle.static.data({name!r}, {[-1, *shape[1:]]}), and the "
                "strategy's micro_batch_size sets them."
            )
        return FeedError(
            f"{got}, expected {micro_batches * shape[0]} rows = {product}. Feed the rows "
            f"of a whole step at once, or {change}"
        )
    whole = [micro_batches * shape[0], *shape[1:]] if shape else [micro_batches]
    return FeedError(
        f"{got}, expected {whole if micro_batches > 1 or shape else []}: one micro-batch "
        f"is {shape}, times {micro_batches} micro-batch(es) a run."
    )


def _narrowed(name: str, known: Feed, array: Array, casting: Literal["safe", "same_kind"]) -> Array:
    """The array in the device's dtype; `casting` is same_kind for lists, which have no dtype."""
    device, fits, bounded = _way(array.dtype, known.declared, known.device, casting)
    if not fits and not _is_exact(array, known.declared):
        if array.dtype == np.uint16:
            raise FeedError(
                f"feed {name!r}: got dtype uint16, in which Paddle keeps the bits of bfloat16, "
                f"expected {known.declared}. Of such bits array.view(ml_dtypes.bfloat16).astype"
                f"({known.declared!r}) is that, of whole numbers array.astype({known.declared!r})."
            )
        raise FeedError(
            f"feed {name!r}: got dtype {array.dtype.name}, expected {known.declared}. Convert it, "
            f"for instance with array.astype({known.declared!r})."
        )
    size = array.size
    if bounded and size:
        # A few numbers are looked through faster by Python.
        numbers = array.ravel().tolist() if size <= _FEW else [int(array.min()), int(array.max())]
        low, high = min(numbers), max(numbers)
        if low < _LOWEST or high > _HIGHEST:
            raise FeedError(
                f"feed {name!r} holds {low if low < _LOWEST else high}, which does not fit the "
                "32-bit integers of an IPU." + (_ONLY_PICKS if known.declared == "int64" else "")
            )
    return array.astype(device)


@functools.lru_cache(256)
def _way(
    dtype: np.dtype[Any], declared: str, wanted: str, casting: Literal["safe", "same_kind"]
) -> tuple[np.dtype[Any], bool, bool]:
    """The device's dtype, whether one dtype may become it, and whether numbers may not fit it."""
    device = np.dtype(wanted)
    integers = np.issubdtype(dtype, np.integer) and np.issubdtype(device, np.integer)
    fits = integers or np.can_cast(dtype, device, casting) or dtype.name == declared
    # Paddle's uint16 are bits.
    fits = fits and (dtype != np.uint16 or integers)
    return device, fits, integers and device == np.int32


def _is_exact(array: Array, declared: str) -> bool:
    """Whether float64 numbers, Python's own, are all numbers of the declared type of floats."""
    if array.dtype != np.float64 or declared not in ("float16", "float32"):
        return False
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(declared).astype(np.float64), array, equal_nan=True)
