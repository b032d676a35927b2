"""To wait for a moment without going to sleep, and without Python's interpreter.

A thread that sleeps is woken in some ten microseconds, and the processor that it leaves idle
attracts threads that would do better to stay where they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

Look = Callable[["ctypes._Pointer[ctypes.c_int64]", int], int]
"""Looks at a number until it is not 0, for some nanoseconds at most; whether it is not 0 then."""


class Watch:
    """What a thread waits for that does not go to sleep.

    Attributes:
        look: the compiled function; None where there is none, or one processor only.
    """

    look: Look | None = None

    def __init__(self) -> None:
        self._number = ctypes.c_int64(0)
        self._place = ctypes.pointer(self._number)

    def call(self) -> None:
        """Ends the wait that goes on."""
        self._number.value = 1

    def reset(self) -> None:
        """To be called before waiting."""
        self._number.value = 0

    def wait(self, seconds: float) -> bool:
        """Waits awake for a call, and less long where others want the processor.

        Returns:
            True where it was called.
        """
        if Watch.look is None:
            return False
        return bool(Watch.look(self._place, int(1e9 * seconds)))
