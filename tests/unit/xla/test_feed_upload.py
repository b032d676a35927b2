"""Feeds that XLA would copy beside the step are on the device before it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from paddle_ipu.xla.step import feed_upload, memory

Array = np.ndarray[Any, Any]

_ELEMENTS = feed_upload.COPIED_BY_A_THREAD // 4


def _block(elements: int) -> Array:
    return memory.allocate({"x": ((elements,), np.dtype(np.float32))})["x"]


def _feeds() -> dict[str, Array]:
    square = _block(_ELEMENTS).reshape(160, 160)
    feeds = {
        "small": _block(_ELEMENTS)[1:],
        "aligned": _block(_ELEMENTS),
        "between": _block(_ELEMENTS + 1)[1:],
        "turned": square.T,
        "strided": _block(2 * _ELEMENTS)[::2],
    }
    for array in feeds.values():
        array[...] = np.arange(array.size, dtype=np.float32).reshape(array.shape)
    return feeds


def test_what_is_copied_by_a_thread_is_uploaded() -> None:
    feeds = _feeds()
    found = feed_upload.uploaded(feeds)
    assert list(found) == list(feeds)
    uploaded = {name for name, array in found.items() if isinstance(array, jax.Array)}
    assert uploaded == {"between", "turned", "strided"}
    for name, array in feeds.items():
        np.testing.assert_array_equal(np.asarray(found[name]), array)


def test_what_stays_is_read_where_it_is() -> None:
    feeds = _feeds()
    array = jax.device_put(feeds["aligned"])
    assert array.unsafe_buffer_pointer() == feeds["aligned"].ctypes.data
    for name in ("between", "turned", "strided"):
        assert jax.device_put(feeds[name]).unsafe_buffer_pointer() != feeds[name].ctypes.data
