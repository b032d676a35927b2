"""Ends an instance whose program failed, though the others do not come to the end with it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from types import TracebackType

_GRACE = 2.0
"""Seconds that what runs at the exit has, once the program has failed."""


def end_where_failed() -> None:
    """From now on an exception that nobody catches ends this process within seconds.

    JAX leaves its service only when all instances do, and they wait for this one in a collective.
    """
    before, exiting = sys.excepthook, threading.Event()

    def end() -> None:
        exiting.wait()
        time.sleep(_GRACE)
        os._exit(1)

    def failed(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        before(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        threading.Thread(target=end, daemon=True).start()

    sys.excepthook = failed
    # Runs before what JAX registered when it was imported.
    atexit.register(exiting.set)
