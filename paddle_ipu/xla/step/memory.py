"""Keeps the memory of one step for the next, on the CPU.

XLA takes its temporary buffers from ``malloc`` at each step and gives them back at the end; glibc
hands blocks of that size straight back to the kernel, and the next step pays for every page again:
a fifth of the processor time of a BERT-Base step. From the first run on the process keeps what it
frees. ``PADDLE_IPU_KEEP_MEMORY=0`` leaves glibc as it is.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import jax
import numpy as np

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_HEAPS = 2
_LINE = 64
_NEVER = 2**31 - 1


def wanted() -> bool:
    """False where ``PADDLE_IPU_KEEP_MEMORY=0`` turns it off."""
    return os.environ.get("PADDLE_IPU_KEEP_MEMORY", "1") != "0"


def run_in_calling_thread() -> None:
    """Asks JAX to run CPU programs in the thread that calls them.

    glibc keeps freed memory for its main heap only, which XLA's own threads do not use. Takes
    effect where JAX has not made its CPU client yet.
    """
    if wanted():
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]


def share_heaps() -> None:
    """Has all threads share two of glibc's heaps.

    By default threads that come and go are given heaps of their own, up to eight for each
    processor, and what is freed there is seldom used again: with every program that is compiled a
    process would grow by some hundred kilobytes, up to a limit.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if wanted() and set_option is not None:
        set_option(_M_ARENA_MAX, _HEAPS)


def room_for(
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


def give_back_unused() -> None:
    """Returns what a compilation has freed to the system, where glibc is there to do it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def _keep_freed_memory() -> bool:
    """Makes glibc keep what is freed, once a process; True where that took effect."""
    if not wanted() or jax.default_backend() != "cpu":
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    return bool(set_option(_M_MMAP_MAX, 0)) and bool(set_option(_M_TRIM_THRESHOLD, _NEVER))


def prepare_for(temporary_bytes: int) -> None:
    """Keeps freed memory from here on, with room for a step's temporary buffers.

    The room is larger than asked for: small blocks that settle in it between two steps must not
    make it too small. Pages that nobody writes to cost nothing.

    Args:
        temporary_bytes: what XLA says the step needs.
    """
    if not _keep_freed_memory():
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
