"""Memory of a step on the CPU: room for its temporary buffers, arrays in large pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from paddle_ipu.operating_system import process_memory
from paddle_ipu.xla import process

_LINE = 64


def allocate(
    kinds: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays side by side, in the system's large pages where it has them.

    They begin where JAX takes an array's memory for its own, without a copy. Large pages come
    faster from the system, and weights that are read once a run come faster from them.

    Args:
        kinds: name -> shape and dtype.
    """
    starts, end = {}, 0
    for name, (shape, dtype) in kinds.items():
        starts[name] = end
        end += -(-math.prod(shape) * dtype.itemsize // _LINE) * _LINE
    block = process_memory.new_pages(end or _LINE)
    return {
        name: np.frombuffer(block, dtype, math.prod(shape), starts[name]).reshape(shape)
        for name, (shape, dtype) in kinds.items()
    }


def is_read_in_place(array: np.ndarray[Any, Any]) -> bool:
    """Whether JAX takes the array's memory for its own, without a copy."""
    return array.flags.c_contiguous and array.ctypes.data % _LINE == 0


def prepare_for(temporary_bytes: int) -> None:
    """Keeps freed memory from here on, with room for a step's temporary buffers.

    The room is larger than asked for: small blocks that settle in it between two steps must not
    make it too small.

    Args:
        temporary_bytes: what XLA says the step needs.
    """
    if process.keep_freed_memory():
        process_memory.make_room(temporary_bytes + temporary_bytes // 4 + (1 << 20))
