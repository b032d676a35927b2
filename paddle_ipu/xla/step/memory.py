"""Memory of a step on the CPU: room for its temporary buffers, arrays in large pages."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

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
    # Memory that is shared with other processes has no large pages.
    block = mmap.mmap(-1, end or _LINE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):
        # A system without large pages has ordinary ones.
        block.madvise(mmap.MADV_HUGEPAGE)
    return {
        name: np.frombuffer(block, dtype, math.prod(shape), starts[name]).reshape(shape)
        for name, (shape, dtype) in kinds.items()
    }


def prepare_for(temporary_bytes: int) -> None:
    """Keeps freed memory from here on, with room for a step's temporary buffers.

    The room is larger than asked for: small blocks that settle in it between two steps must not
    make it too small. Pages that nobody writes to cost nothing.

    Args:
        temporary_bytes: what XLA says the step needs.
    """
    if not process.keep_freed_memory():
        return
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes, libc.free.restype = [ctypes.c_void_p], None
    size = temporary_bytes + temporary_bytes // 4 + (1 << 20)
    block = libc.malloc(size)
    if block:
        page = mmap.PAGESIZE
        begin, end = -(-block // page) * page, (block + size) // page * page
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        # Large pages, where the system has them; it may say no.
        libc.madvise(begin, end - begin, mmap.MADV_HUGEPAGE)
    libc.free(block)
