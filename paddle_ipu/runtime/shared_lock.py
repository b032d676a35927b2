"""A shared and exclusive lock: runs that leave nothing behind go together, all others alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager


class SharedLock:
    """Lets threads in together or alone; who waits to be alone comes before who comes later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside = 0
        self._is_alone = False
        self._wanting_alone = 0

    def hold(self, together: Callable[[], bool]) -> AbstractContextManager[bool]:
        """Holds the lock, beside others where ``together()`` is true; gives whether it is alone.

        Args:
            together: asked while nobody is alone; it stays true until somebody was.
        """
        return _Holding(self, together)

    def _enter(self) -> None:
        with self._lock:
            while self._is_alone or self._wanting_alone:
                self._changed.wait()
            self._inside += 1

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._wanting_alone:
                self._changed.notify_all()

    def _enter_alone(self) -> None:
        with self._lock:
            self._wanting_alone += 1
            try:
                while self._is_alone or self._inside:
                    self._changed.wait()
                self._is_alone = True
            finally:
                self._wanting_alone -= 1
                if not self._is_alone:
                    self._changed.notify_all()

    def _leave_alone(self) -> None:
        with self._lock:
            self._is_alone = False
            self._changed.notify_all()


class _Holding:
    """One thread that holds the lock."""

    __slots__ = ("_is_alone", "_lock", "_together")

    def __init__(self, lock: SharedLock, together: Callable[[], bool]) -> None:
        self._lock = lock
        self._together = together
        self._is_alone = False

    def __enter__(self) -> bool:
        lock = self._lock
        lock._enter()
        goes_on = False
        try:
            goes_on = self._together()
        finally:
            if not goes_on:
                lock._leave()
        if not goes_on:
            lock._enter_alone()
            self._is_alone = True
        return self._is_alone

    def __exit__(self, *_: object) -> None:
        if self._is_alone:
            self._lock._leave_alone()
        else:
            self._lock._leave()
