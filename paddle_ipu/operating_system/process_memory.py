"""Memory of this process: how much it has, large pages, what the C library keeps."""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

from paddle_ipu.operating_system import c_library

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
_NEVER = 2**31 - 1


def resident_bytes() -> int | None:
    """Memory that this process has in the machine's; None where the system has no ``/proc``."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return None


def new_pages(size: int) -> mmap.mmap:
    """Memory of its own, zeros, in large pages where the system has them.

    Args:
        size: bytes, at least one.
    """
    # Memory that is shared with other processes has no large pages.
    private = getattr(mmap, "MAP_PRIVATE", None)
    anonymous = getattr(mmap, "MAP_ANONYMOUS", None)
    if private is None or anonymous is None:
        return mmap.mmap(-1, size)
    block = mmap.mmap(-1, size, private | anonymous)
    with suppress(AttributeError, OSError):
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


def limit_heaps(count: int) -> bool:
    """Has threads share so many heaps of glibc; True where that took effect."""
    return _set_malloc(_ARENA_MAX, count)


def keep_freed() -> bool:
    """Has glibc keep what is freed; True where that took effect."""
    return _set_malloc(_MMAP_MAX, 0) and _set_malloc(_TRIM_THRESHOLD, _NEVER)


def give_back_freed() -> None:
    """Returns what has been freed to the system, where glibc is there to do it."""
    trim = c_library.function("malloc_trim", ctypes.c_int, ctypes.c_size_t)
    if trim is not None:
        trim(0)


def make_room(size: int) -> None:
    """Has a heap that keeps what is freed hold so much, in large pages where there are some.

    Pages that nobody writes to cost nothing. Does nothing where the C library cannot be called.

    Args:
        size: bytes.
    """
    allocate = c_library.function("malloc", ctypes.c_void_p, ctypes.c_size_t)
    free = c_library.function("free", None, ctypes.c_void_p)
    if allocate is None or free is None:
        return
    block = allocate(size)
    advise = c_library.function(
        "madvise", ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    )
    large = getattr(mmap, "MADV_HUGEPAGE", None)
    if block and advise is not None and large is not None:
        page = mmap.PAGESIZE
        begin, end = -(-block // page) * page, (block + size) // page * page
        # It may say no.
        advise(begin, end - begin, large)
    free(block)


def _set_malloc(option: int, value: int) -> bool:
    set_option = c_library.function("mallopt", ctypes.c_int, ctypes.c_int, ctypes.c_int)
    return set_option is not None and bool(set_option(option, value))
