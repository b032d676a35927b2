"""Ends an instance that leaves the others waiting, which JAX would keep until they leave, too."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from types import TracebackType

from paddle_ipu.distributed import heartbeat

_GRACE = 2.0
"""Seconds that what runs at the exit has, once the program has failed."""
_GLANCE = 0.1


def end_where_failed() -> None:
    """From now on this process ends, with code 1, though others wait for it in a collective.

    It ends so within seconds where nobody catches an exception; and where it comes to its end in
    any other way, as soon as another instance begins a collective that it will not take part in.
    """
    before, exiting, failing = sys.excepthook, threading.Event(), threading.Event()

    def end() -> None:
        exiting.wait()
        last = time.monotonic() + _GRACE
        waiting: list[int] = []
        while not (failing.is_set() or waiting):
            time.sleep(_GLANCE)
            waiting = heartbeat.waiting_instances()
        if waiting:
            named = ", ".join(map(str, waiting))
            sys.stderr.write(
                f"this instance ends, and others wait for it in a run: {named}. All instances of a "
                "program run as many steps.\n"
            )
            sys.stderr.flush()
        time.sleep(max(0.0, last - time.monotonic()))
        os._exit(1)

    def failed(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        before(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        failing.set()

    sys.excepthook = failed
    threading.Thread(target=end, daemon=True).start()
    # Runs before what JAX registered when it was imported.
    atexit.register(exiting.set)
