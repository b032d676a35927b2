"""Turns at a device: runs that leave nothing behind go together, all others alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turns:
    """Lets threads in together or alone; who waits to be alone comes before who comes later."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._is_alone = False
        self._wanting_alone = 0

    @contextmanager
    def turn(self, together: Callable[[], bool]) -> Iterator[bool]:
        """A turn, beside others where ``together()`` holds; gives whether it is alone.

        Args:
            together: asked while nobody is alone; it stays true until somebody was.
        """
        self._enter()
        try:
            if together():
                yield False
                return
        finally:
            self._leave()
        self._enter_alone()
        try:
            yield True
        finally:
            self._leave_alone()

    def _enter(self) -> None:
        with self._changed:
            while self._is_alone or self._wanting_alone:
                self._changed.wait()
            self._inside += 1

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            if not self._inside and self._wanting_alone:
                self._changed.notify_all()

    def _enter_alone(self) -> None:
        with self._changed:
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
        with self._changed:
            self._is_alone = False
            self._changed.notify_all()
