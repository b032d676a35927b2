"""What a run fetches: which anchor answers, and what becomes of the device's array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu.options.strategy import StrategyValues
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


def fetched_array(fetch: Fetch, array: Array, shape: tuple[int, ...]) -> Array:
    """What the device returned for a fetch, in the dtype that Paddle gives it."""
    if fetch.scale != 1.0:
        # Half may not hold the scale.
        array = array.astype(np.float32) / np.float32(fetch.scale)
    if array.shape != shape:
        array = array.reshape(shape)
    return to_bits(array if array.dtype == dtype_of(fetch.dtype) else array.astype(fetch.dtype))


def axes_of(values: StrategyValues) -> dict[str, int]:
    """What a fetch has in front of the tensor's own shape, as an IPU build of Paddle adds it."""
    axes = {}
    if values["batches_per_step"] > 1:
        axes["batches_per_step"] = int(values["batches_per_step"])
    if values["enable_gradient_accumulation"]:
        axes["accumulation_factor"] = int(values["accumulation_factor"])
    if values["enable_replicated_graphs"]:
        axes["replicated_graph_count"] = int(values["replicated_graph_count"])
    return axes


def flat(fetch_list: Any) -> list[Any]:
    """The fetches of nested lists, in order."""
    if fetch_list is None:
        return []
    if not isinstance(fetch_list, (list, tuple)):
        return [fetch_list]
    if all(type(item) is str for item in fetch_list):
        return list(fetch_list)
    return [leaf for item in fetch_list for leaf in flat(item)]
