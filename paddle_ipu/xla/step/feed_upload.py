"""Feeds that XLA would copy in a thread of its own, copied before the step begins."""

from __future__ import annotations

from collections.abc import Mapping

import jax

from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.step import memory

COPIED_BY_A_THREAD = 100 << 10
"""Bytes from which on XLA leaves the copy of an array to a thread."""


def uploaded(feeds: Mapping[str, HostArray]) -> dict[str, HostArray | jax.Array]:
    """Feeds as a step takes them: those that a thread copies are on the device, and there whole.

    While it copies one, XLA leaves the step to a thread, too, in whose heap no memory for temporary
    buffers is kept (``process_changes.py``). What XLA reads where it is stays an array of NumPy's.
    """
    beside = {
        name: array
        for name, array in feeds.items()
        if array.nbytes >= COPIED_BY_A_THREAD and not memory.is_read_in_place(array)
    }
    if not beside:
        return dict(feeds)
    copied: dict[str, jax.Array] = jax.device_put(beside)
    jax.block_until_ready(copied)  # type: ignore[no-untyped-call]
    return {**feeds, **copied}
