"""This process: its interrupts, its forks, its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

from paddle_ipu.operating_system import c_library

_PR_SET_PDEATHSIG = 1


def interrupt() -> None:
    """Sends this process an interrupt, as the keyboard does; to be called from any thread."""
    if sys.platform == "win32":
        # `os.kill` ends a process there, whatever the signal.
        signal.raise_signal(signal.SIGINT)
    else:
        # To the process, so that it is the main thread's wait that ends.
        os.kill(os.getpid(), signal.SIGINT)


def when_forked(note: Callable[[], None]) -> None:
    """Has `note` called in processes that are forked from this one; Windows has none."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=note)


def end_with_parent() -> None:
    """Has this process get SIGTERM when its parent ends, where the system does that."""
    control = c_library.function("prctl", ctypes.c_int, ctypes.c_int, ctypes.c_ulong)
    if control is not None:
        control(_PR_SET_PDEATHSIG, signal.SIGTERM)
