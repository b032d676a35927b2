"""Ends an instance that others wait for: JAX would keep it until they end too."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from paddle_ipu.instances import heartbeat
from paddle_ipu.instances.instance import this_instance

_LEFT, _WAITS = "paddle_ipu/left/", "paddle_ipu/waits/"
"""Keys of instances that end, and of those that wait for one that has ended."""

_INTERVAL = 0.25
_GRACE = 5.0
"""Seconds in which the exit code of an instance that has left ends the launch, if it is not 0."""


class Board(Protocol):
    """A key-value store that all instances share: the client of ``jax.distributed``."""

    def key_value_set(self, key: str, value: str) -> None:
        """Writes a value."""

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """The keys with this prefix, and their values."""


def end_where_failed(board: Board, leave_alone: Callable[[], None]) -> None:
    """Has this process end, with its own exit code, although others wait for it.

    That is so after an exception that nobody catches. After any other end it is so as soon as
    another instance waits in a collective without it. Such an instance prints for whom it waits,
    and ends too.

    Args:
        board: a key-value store that all instances share.
        leave_alone: makes JAX end without waiting for the others.
    """
    before, failing, stop = sys.excepthook, threading.Event(), threading.Event()
    watching = threading.Thread(target=_watch, args=(board, stop), daemon=True)

    def failed(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        before(kind, error, trace)
        failing.set()

    def leave() -> None:
        # Python stops threads at any point, which C++ does not survive.
        stop.set()
        watching.join(timeout=_GRACE)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            alone = failing.is_set() or _is_waited_for(board)
        except RuntimeError:
            # Instance 0, which holds the board, is gone.
            alone = True
        if alone:
            leave_alone()

    sys.excepthook = failed
    watching.start()
    # Runs before what JAX registered when it was imported.
    atexit.register(leave)


def _is_waited_for(board: Board) -> bool:
    """Waits until another instance waits for this one, or all have ended; True for the first."""
    instance = this_instance()
    board.key_value_set(f"{_LEFT}{instance.index}", str(heartbeat.meetings()))
    while not (waiting := board.key_value_dir_get(_WAITS)):
        if len(board.key_value_dir_get(_LEFT)) == instance.count:
            return False
        time.sleep(_INTERVAL)
    _print(f"this instance ends, and others wait for it in a run: {_numbers(waiting)}")
    return True


def _watch(board: Board, stop: threading.Event) -> None:
    """Ends this process some time after an instance that it waits for."""
    while not stop.wait(_INTERVAL):
        try:
            left = board.key_value_dir_get(_LEFT)
        except RuntimeError:
            # Instance 0, which holds the board, is slow, or stopped.
            continue
        gone = [(key, met) for key, met in left if int(met) < heartbeat.meetings()]
        if gone:
            _print(f"this instance waits in a run for what has ended: {_numbers(gone)}")
            # Instance 0 may be gone meanwhile. This one ends all the same.
            with contextlib.suppress(RuntimeError):
                board.key_value_set(f"{_WAITS}{this_instance().index}", "")
            if not stop.wait(_GRACE):
                os._exit(1)


def _numbers(entries: list[tuple[str, str]]) -> str:
    numbers = sorted(int(key.rpartition("/")[2]) for key, _ in entries)
    return "instance " * (len(numbers) == 1) + ", ".join(map(str, numbers))


def _print(text: str) -> None:
    sys.stderr.write(f"{text}. All instances of a program run as many steps.\n")
    sys.stderr.flush()
