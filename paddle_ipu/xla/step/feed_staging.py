"""Memory that small feeds are copied into, as the device's own arrays made once.

JAX makes an array on the device of each NumPy array that a run is given, which for a few numbers
takes longer than most of what a small program does with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from paddle_ipu.xla.step import memory

Array = np.ndarray[Any, Any]

_SMALL = 4096
"""Bytes of a feed that is copied sooner than JAX takes it."""


class FeedRoom:
    """The feeds of one run at a time.

    Args:
        kinds: input -> shape and dtype as the step takes it.

    Attributes:
        arguments: input -> what the step is called with.
    """

    __slots__ = ("_own", "arguments")

    def __init__(self, kinds: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        small = {
            name: (shape, np.dtype(dtype))
            for name, (shape, dtype) in kinds.items()
            if np.dtype(dtype).itemsize * int(np.prod(shape)) <= _SMALL
        }
        room = memory.room_for(small)
        self.arguments: dict[str, Any] = dict(jax.device_put(room))
        # Elsewhere than on a CPU an array on the device is a copy.
        self._own = {
            name: array
            for name, array in room.items()
            if self.arguments[name].unsafe_buffer_pointer() == array.ctypes.data
        }

    def fill(self, feeds: Mapping[str, Array]) -> None:
        """Makes the feeds of a run the arguments; no other run may be under way with these.

        Args:
            feeds: of the shapes and dtypes that the step takes.

        Raises:
            TypeError: one of another dtype.
        """
        own, arguments = self._own, self.arguments
        for name, array in feeds.items():
            room = own.get(name)
            if room is None:
                arguments[name] = array
            else:
                np.copyto(room, array, casting="equiv")
