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

_ENDED, _WAITS = "paddle_ipu/ended/", "paddle_ipu/waits/"
"""Keys of instances that end, and of those that wait for one that has ended."""

_INTERVAL = 0.25
_GRACE = 15.0
"""Seconds in which the exit code of an instance that has ended ends the launch, if it is not 0."""


class KeyValueStore(Protocol):
    """A key-value store that all instances share: the client of ``jax.distributed``."""

    def key_value_set(self, key: str, value: str) -> None:
        """Writes a value."""

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """The keys with this prefix, and their values."""


def end_where_failed(store: KeyValueStore, leave_alone: Callable[[], None]) -> None:
    """Has this process end, with its own exit code, although others wait for it.

    That is so after an exception that nobody catches. After any other end it is so as soon as
    another instance waits in a collective without it. Such an instance prints for whom it waits,
    and ends too.

    Args:
        store: a key-value store that all instances share.
        leave_alone: makes JAX end without waiting for the others.
    """
    before, failing, stop = sys.excepthook, threading.Event(), threading.Event()
    watching = threading.Thread(target=_watch, args=(store, stop), daemon=True)

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
            alone = failing.is_set() or _is_waited_for(store)
        except RuntimeError:
            # Instance 0, which has the store, is gone.
            alone = True
        if alone:
            leave_alone()

    sys.excepthook = failed
    watching.start()
    # Runs before what JAX registered when it was imported.
    atexit.register(leave)


def _is_waited_for(store: KeyValueStore) -> bool:
    """Waits until another instance waits for this one, or all have ended; True for the first."""
    instance = this_instance()
    store.key_value_set(f"{_ENDED}{instance.index}", str(heartbeat.collectives()))
    while not (waiting := store.key_value_dir_get(_WAITS)):
        if len(store.key_value_dir_get(_ENDED)) == instance.count:
            return False
        time.sleep(_INTERVAL)
    _print(f"this instance ends, and others wait for it in a run: {_numbers(waiting)}")
    return True


def _watch(store: KeyValueStore, stop: threading.Event) -> None:
    """Ends this process some time after an instance that it waits for."""
    while not stop.wait(_INTERVAL):
        try:
            ended = store.key_value_dir_get(_ENDED)
        except RuntimeError:
            # Instance 0, which has the store, is slow, or stopped.
            continue
        gone = [(key, count) for key, count in ended if int(count) < heartbeat.collectives()]
        if gone:
            _print(f"this instance waits in a run for what has ended: {_numbers(gone)}")
            # Instance 0 may be gone meanwhile. This one ends all the same.
            with contextlib.suppress(RuntimeError):
                store.key_value_set(f"{_WAITS}{this_instance().index}", "")
            if not stop.wait(_GRACE):
                os._exit(1)


def _numbers(entries: list[tuple[str, str]]) -> str:
    numbers = sorted(int(key.rpartition("/")[2]) for key, _ in entries)
    return "instance " * (len(numbers) == 1) + ", ".join(map(str, numbers))


def _print(text: str) -> None:
    sys.stderr.write(f"{text}. All instances of a program run as many steps.\n")
    sys.stderr.flush()
