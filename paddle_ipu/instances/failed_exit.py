"""Ends an instance that leaves the others waiting, which JAX would keep until they leave, too."""

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
"""Where an instance that comes to its end says so, and one that waits for such an instance."""

_GLANCE = 0.25
_GRACE = 5.0
"""Seconds in which the exit code of an instance that has left ends the launch, if it is not 0."""


class Board(Protocol):
    """What all instances can write and read: the client of ``jax.distributed``."""

    def key_value_set(self, key: str, value: str) -> None:
        """Writes a value."""

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """The keys with this beginning, and their values."""


def end_where_failed(board: Board, leave_alone: Callable[[], None]) -> None:
    """From now on this process ends, with its own exit code, though others wait for it.

    It ends so where nobody catches an exception; and where it comes to its end in any other way, as
    soon as another instance waits in a collective that it will not take part in. An instance that
    waits so says for whom, and ends, too.

    Args:
        board: what the instances write to one another.
        leave_alone: has JAX leave without waiting for the others.
    """
    before, failing, stop = sys.excepthook, threading.Event(), threading.Event()
    watching = threading.Thread(target=_watch, args=(board, stop), daemon=True)

    def failed(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        before(kind, error, trace)
        failing.set()

    def leave() -> None:
        # Python ends threads where they are, and C++ does not bear that.
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
    """Waits until another instance waits for this one, which ends, or all come to their end."""
    instance = this_instance()
    board.key_value_set(f"{_LEFT}{instance.index}", str(heartbeat.meetings()))
    while not (waiting := board.key_value_dir_get(_WAITS)):
        if len(board.key_value_dir_get(_LEFT)) == instance.count:
            return False
        time.sleep(_GLANCE)
    _say(f"this instance ends, and others wait for it in a run: {_numbers(waiting)}")
    return True


def _watch(board: Board, stop: threading.Event) -> None:
    """Ends this process some time after one that it waits for has ended."""
    while not stop.wait(_GLANCE):
        try:
            left = board.key_value_dir_get(_LEFT)
        except RuntimeError:
            # Instance 0, which holds the board, is slow, or stopped.
            continue
        gone = [(key, met) for key, met in left if int(met) < heartbeat.meetings()]
        if gone:
            _say(f"this instance waits in a run for what has ended: {_numbers(gone)}")
            # Where instance 0 is gone meanwhile, nobody reads it, and this one ends all the same.
            with contextlib.suppress(RuntimeError):
                board.key_value_set(f"{_WAITS}{this_instance().index}", "")
            if not stop.wait(_GRACE):
                os._exit(1)


def _numbers(found: list[tuple[str, str]]) -> str:
    numbers = sorted(int(key.rpartition("/")[2]) for key, _ in found)
    return "instance " * (len(numbers) == 1) + ", ".join(map(str, numbers))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}. All instances of a program run as many steps.\n")
    sys.stderr.flush()
