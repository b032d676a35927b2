"""Outlives ``poprun``, and then ends the processes that it started and removes its folders.

Runs as a program of its own, which imports nothing but the standard library: one on each host of a
launch, on others by SSH. Its standard input alone connects it to ``poprun``. Each line is a task,
most of them for when the input is closed, by ``poprun`` or by its death.

=================  =====================================================================
``session ID``     end the processes of a session
``marked TEXT``    end the processes that have a variable ``TEXT``, as ``NAME=value``
``folder PATH``    remove a folder
``post JSON``      send ``[host, port, body]`` to a V-IPU service
``now``            end the processes at once, and answer ``done``
``beats``          answer ``beats JSON``: the progress of each instance of this host
``port``           answer ``port NUMBER``, one that is free at all addresses of this host, or why
                   there is none
=================  =====================================================================

The first line of its output is empty. The argument ``folder`` has it make a folder for temporary
files, which it removes: then the first line is its path, and lines ``ended NUMBER JSON`` repeat
the notes of the instances' guards, with ``age``, in seconds, in place of ``at``: clocks of hosts
differ.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_GRACE = 5.0
_GLANCE = 0.05
_OFTEN = 0.2


def _processes() -> list[Path]:
    return [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in _processes():
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def marked(text: str) -> list[int]:
    """The processes that have an environment variable, which their children inherit."""
    wanted, found = text.encode(), []
    for entry in _processes():
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_session(session: int) -> None:
    """Ends every process of a session: SIGTERM to its leader, then to all, then SIGKILL."""
    if not members(session):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(session, signal.SIGTERM)
    last = time.monotonic() + _GRACE
    # The leader forwards the signal; without it :func:`end` sends it to all.
    while session in members(session) and time.monotonic() < last:
        time.sleep(_GLANCE)
    end(lambda: members(session))


def end(processes: Callable[[], list[int]]) -> None:
    """Ends processes, and those that they start meanwhile: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signalled: set[int] = set()
        last = time.monotonic() + _GRACE
        while time.monotonic() < last:
            left = processes()
            if not left:
                return
            for process in set(left) - signalled:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, number)
            signalled.update(left)
            time.sleep(_GLANCE)


def post(host: str, port: int, body: str) -> None:
    """Sends a request to a V-IPU service, where one answers."""
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=_GRACE)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.connect()
        address = connection.sock.getpeername()[0]
        name = f"[{address}]" if connection.sock.family == socket.AF_INET6 else address
        headers = {"Content-Type": "application/json", "Host": f"{name}:{port}"}
        connection.request("POST", "/", body, headers)
        connection.getresponse().read()


def beats(folder: Path) -> dict[int, tuple[int, str, float]]:
    """The progress of the instances that count their runs in a folder.

    Returns:
        Instance -> (runs that it has begun, the state of its process by the kernel's letter, ""
        where it is gone, seconds of processors that it has used).
    """
    found = {}
    # An error here must not end the cleaner.
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if file.name.isdecimal():
                content = file.read_bytes()
                count, process = (int.from_bytes(content[at : at + 8], "little") for at in (0, 8))
                found[int(file.name)] = (count, *_process(process))
    return found


def _process(number: int) -> tuple[str, float]:
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except OSError:
        return "", 0.0
    fields = text.rpartition(")")[2].split()
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port(address: str = "") -> int:
    """A port that is free now at one address of this host, or ("") at all of them.

    Raises:
        OSError: there is none.
    """
    if address or not socket.has_dualstack_ipv6():
        listener = socket.socket(socket.AF_INET)
    else:
        listener = socket.socket(socket.AF_INET6)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    with listener:
        listener.bind((address, 0))
        return int(listener.getsockname()[1])


def clean(lines: Iterable[str], answer: Callable[[str], None], folder: str = "") -> None:
    """Reads tasks until the input ends, then does them.

    Args:
        lines: the input.
        answer: called with each answer.
        folder: where the instances of this host count their runs.
    """
    found: dict[str, list[str]] = {"session": [], "marked": [], "folder": [], "post": []}

    def end_processes() -> None:
        for session in found["session"]:
            end_session(int(session))
        for text in found["marked"]:
            end(functools.partial(marked, text))

    for line in lines:
        if not line.endswith("\n"):
            # The connection broke within the line: half a path is another folder.
            break
        what, _, value = line.rstrip("\n").partition(" ")
        if what == "now":
            end_processes()
            answer("done")
        elif what == "beats":
            answer(f"beats {json.dumps(beats(Path(folder)))}")
        elif what == "port":
            try:
                answer(f"port {free_port()}")
            except OSError as error:
                answer(f"port {error.strerror}")
        else:
            found[what].append(value)
    end_processes()
    for value in found["post"]:
        post(*json.loads(value))
    for folder in found["folder"]:
        shutil.rmtree(folder, ignore_errors=True)


class _Notes:
    """Writes the notes of guards in a folder to standard output."""

    def __init__(self, folder: str) -> None:
        self._folder, self._lock, self._written = folder, threading.Lock(), set[str]()

    def write_new(self) -> None:
        """Writes the notes that were not written yet."""
        with self._lock:
            for path in sorted(Path(self._folder).glob("ended-*")) if self._folder else ():
                if path.name not in self._written:
                    self._written.add(path.name)
                    note = json.loads(path.read_text(encoding="utf-8"))
                    note["age"] = time.monotonic() - note.pop("at")
                    _write(f"ended {path.name[6:]} {json.dumps(note)}")

    def watch(self) -> None:
        """Writes new notes for ever."""
        while True:
            self.write_new()
            time.sleep(_OFTEN)


def _write(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def main(words: list[str]) -> None:
    """Runs the program."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    folder = tempfile.mkdtemp(prefix="poprun-") if "folder" in words else ""
    try:
        _write(folder)
        notes = _Notes(folder)
        if folder:
            threading.Thread(target=notes.watch, daemon=True).start()

        def answer(text: str) -> None:
            notes.write_new()
            _write(text)

        clean(sys.stdin, answer, folder)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
