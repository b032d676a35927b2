"""Signals that wait until a step has given its weights back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Deferred:
    """Within the block Python's handlers of SIGINT and SIGTERM wait for its end.

    A step takes the weights' memory over. An exception of a handler, such as KeyboardInterrupt,
    between its end and the moment its results are kept would lose all of them. Nothing ends later
    for it: no handler is called before a step returns.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._arrived: list[tuple[int, FrameType | None]] = []
        self._waiting = False

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # handlers are called in the main thread alone
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._defer)
        self._waiting = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waiting = False
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for arrived, frame in self._arrived:
            self._handlers[arrived](arrived, frame)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._waiting:
            self._arrived.append((number, frame))
        else:  # it came while the handlers were being exchanged
            self._handlers[number](number, frame)
