"""A shared and exclusive lock: runs that leave nothing behind share it, all others exclude."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager


class SharedLock:
    """Threads share it, or one holds it alone; an exclusive one goes before later threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._sharing = 0
        self._is_exclusive = False
        self._waiting_exclusive = 0

    def hold(self, may_share: Callable[[], bool]) -> AbstractContextManager[bool]:
        """Holds the lock, and gives whether it is held exclusively.

        Args:
            may_share: whether other threads may hold it too; called while no thread holds it
                exclusively. It stays true until one has.
        """
        return _Holder(self, may_share)

    def _acquire_shared(self) -> None:
        with self._lock:
            while self._is_exclusive or self._waiting_exclusive:
                self._changed.wait()
            self._sharing += 1

    def _release_shared(self) -> None:
        with self._lock:
            self._sharing -= 1
            if not self._sharing and self._waiting_exclusive:
                self._changed.notify_all()

    def _acquire_exclusive(self) -> None:
        with self._lock:
            self._waiting_exclusive += 1
            try:
                while self._is_exclusive or self._sharing:
                    self._changed.wait()
                self._is_exclusive = True
            finally:
                self._waiting_exclusive -= 1
                if not self._is_exclusive:
                    self._changed.notify_all()

    def _release_exclusive(self) -> None:
        with self._lock:
            self._is_exclusive = False
            self._changed.notify_all()


class _Holder:
    """One thread that holds the lock."""

    __slots__ = ("_is_exclusive", "_lock", "_may_share")

    def __init__(self, lock: SharedLock, may_share: Callable[[], bool]) -> None:
        self._lock = lock
        self._may_share = may_share
        self._is_exclusive = False

    def __enter__(self) -> bool:
        lock = self._lock
        lock._acquire_shared()
        shares = False
        try:
            shares = self._may_share()
        finally:
            if not shares:
                lock._release_shared()
        if not shares:
            lock._acquire_exclusive()
            self._is_exclusive = True
        return self._is_exclusive

    def __exit__(self, *_: object) -> None:
        if self._is_exclusive:
            self._lock._release_exclusive()
        else:
            self._lock._release_shared()
