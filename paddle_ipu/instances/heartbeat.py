"""What an instance tells of its progress: it counts the runs that it begins, for who watches."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from paddle_ipu.instances.instance import this_instance

FOLDER = "PADDLE_IPU_HEARTBEAT"
"""Folder with a file for each instance of this host; ``poprun`` sets it.

A file has two numbers of 8 bytes, little end first: of runs that the instance has begun, and of its
process. `cleaner.beats` reads them.
"""

_LOCK = threading.Lock()
_runs = _meetings = 0
_file = -1
_folder = os.environ.get(FOLDER)


def beat() -> None:
    """Counts a run, a compilation or a collective that begins; nothing where nobody watches."""
    global _file, _runs
    if not _folder:
        return
    with _LOCK:
        if _file < 0:
            path = Path(_folder) / str(this_instance().index)
            _file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(_file, os.getpid().to_bytes(8, "little"), 8)
        _runs += 1
        os.pwrite(_file, _runs.to_bytes(8, "little"), 0)


def meet() -> None:
    """Counts what can only end where all instances begin it."""
    global _meetings
    with _LOCK:
        _meetings += 1


def meetings() -> int:
    """How many of them this instance has begun."""
    return _meetings
