"""Functions of the C library that this process runs on, where it has them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def function(name: str, result: type | None, *arguments: type) -> Callable[..., Any] | None:
    """A function of the process's C library.

    Args:
        name: of the function.
        result: its type by ctypes, None for void.
        arguments: their types by ctypes.

    Returns:
        None where the library has no such function, as most but glibc have no ``mallopt``, or
        where a process cannot look into itself, as on Windows.
    """
    try:
        found = getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None
    if found is None:
        return None
    found.restype, found.argtypes = result, arguments
    called: Callable[..., Any] = found
    return called
