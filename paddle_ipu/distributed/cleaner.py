"""Outlives ``poprun`` however that ends, and then ends what it started and removes its folder.

Runs as a program of its own, which imports nothing but the standard library. Its standard input is
the only thing that ties it to ``poprun``: lines ``session ID`` and ``folder PATH`` say what there
is to do once it is closed, by ``poprun`` or by its death.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_GRACE = 5.0


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def end(session: int) -> None:
    """Ends every process of a session: asks its leader, then kills who is left."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(session, signal.SIGTERM)
    last = time.monotonic() + _GRACE
    while members(session) and time.monotonic() < last:
        if session not in members(session):
            # Nobody is left to pass the signal on.
            break
        time.sleep(0.05)
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = members(session)
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        if left:
            time.sleep(0.5)


def clean(lines: Iterable[str]) -> None:
    """Reads what there is to do until the input ends, and does it."""
    sessions: list[str] = []
    folders: list[str] = []
    for line in lines:
        what, _, value = line.rstrip("\n").partition(" ")
        (sessions if what == "session" else folders).append(value)
    for session in sessions:
        if members(int(session)):
            end(int(session))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    clean(sys.stdin)
