"""Runs an instance of a launch on several hosts, and notes how it ended.

``mpirun`` does not always see that: an instance that ends before those of other hosts have started
can leave it waiting, and it takes the loss of a host's daemon for a good end. Runs as a program of
its own, which imports nothing but the standard library::

    instance_guard.py FOLDER NUMBER PROGRAM [ARGUMENTS]

The note is a file ``ended-NUMBER`` in the folder: JSON with ``code`` (128 + signal where one killed
it), ``pid``, ``host`` and ``at``, in seconds of the monotonic clock that all processes of a host
have in common.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1
_NOT_FOUND = 127


def note(folder: Path, number: str, code: int, pid: int) -> None:
    """Writes how an instance ended, in one piece."""
    text = json.dumps(
        {"code": code, "pid": pid, "host": socket.gethostname(), "at": time.monotonic()}
    )
    part = folder / f"part-{number}"
    part.write_text(text, encoding="utf-8")
    part.rename(folder / f"ended-{number}")


def main(words: list[str]) -> int:
    """Runs the program; returns its code, or ends by the signal that ended it."""
    folder, number, *program = words
    # The instance ends when the daemon that started this process dies.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    environment = {name: v for name, v in os.environ.items() if name != "IPUOF_CONFIG_PATH"}
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def forward(signal_number: int, frame: FrameType | None) -> None:
        early.append(signal_number)
        for process in running:
            process.send_signal(signal_number)

    for number_of_signal in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number_of_signal, forward)
    try:
        process = subprocess.Popen(program, env=environment)
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
        note(Path(folder), number, _NOT_FOUND, os.getpid())
        return _NOT_FOUND
    running.append(process)
    for signal_number in early:
        process.send_signal(signal_number)
    code = process.wait()
    note(Path(folder), number, code if code >= 0 else 128 - code, process.pid)
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
