"""What a run fetches: which anchor answers, and what becomes of the device's array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu.runtime.feeds import dtype_of
from paddle_ipu.runtime.scope import to_bits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch of a compiled program.

    Attributes:
        anchor: the PopART tensor that answers it.
        dtype: the one Paddle gives it.
        scale: what the anchor is to be divided by.
    """

    anchor: str
    dtype: str
    scale: float = 1.0


def given_back(fetch: Fetch, array: Array, shape: tuple[int, ...]) -> Array:
    """What the device returned for a fetch, in the dtype that Paddle gives it."""
    if fetch.scale != 1.0:
        # Half may not hold the scale.
        array = array.astype(np.float32) / np.float32(fetch.scale)
    if array.shape != shape:
        array = array.reshape(shape)
    return to_bits(array if array.dtype == dtype_of(fetch.dtype) else array.astype(fetch.dtype))
