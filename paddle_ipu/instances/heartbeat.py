"""An instance's progress: the number of runs that it has begun, in a file that ``poprun`` reads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from paddle_ipu.instances.instance import this_instance

FOLDER = "PADDLE_IPU_HEARTBEAT"
"""Folder with a file for each instance of this host; ``poprun`` sets it.

A file has two little-endian numbers of 8 bytes: the runs that the instance has begun, and its
process. `cleaner.beats` reads them.
"""

_LOCK = threading.Lock()
_runs = _collectives = 0
_file = -1
_folder = os.environ.get(FOLDER)


def beat() -> None:
    """Counts a run, a compilation or a collective that begins, where `FOLDER` is set."""
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


def begin_collective() -> None:
    """Counts a collective, which ends only where all instances begin it."""
    global _collectives
    with _LOCK:
        _collectives += 1


def collectives() -> int:
    """How many collectives this instance has begun."""
    return _collectives
