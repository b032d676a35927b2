"""Processors that the kernels of a step leave to other threads of the process.

A small step that is shared out among all processors waits for those that threads beside it hold,
and these wait for the step's. The compiled kernels read the number where it is.
"""

from __future__ import annotations

import ctypes
import threading
from types import TracebackType

_lock = threading.Lock()

COUNT = ctypes.c_int64(0)
"""How many are spared now."""


class _Spared:
    def __enter__(self) -> None:
        self._add(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._add(-1)

    def _add(self, count: int) -> None:
        with _lock:
            COUNT.value += count


ONE_SPARED = _Spared()
"""A context in which kernels spare one more."""
