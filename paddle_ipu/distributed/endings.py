"""How the instances of several hosts ended, as their guards noted it."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paddle_ipu.distributed.mpi_process import Failure, signal_name

_PATIENCE = 5.0
"""Seconds that mpirun has to end the others when an instance failed."""
_TERMINATED = 128 + signal.SIGTERM


class Endings:
    """The notes of all instances of a launch.

    Args:
        folder: this host's.
        instances: how many there are.
        clock: gives seconds; that of this host's guards.
    """

    def __init__(
        self, folder: Path, instances: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._instances, self._clock = folder, instances, clock
        self._lock = threading.Lock()
        self._notes: dict[int, dict[str, Any]] = {}
        self._failed_at: float | None = None
        self.lost_hosts: list[str] = []

    def add_remote(self, number: int, note: dict[str, Any]) -> None:
        """Adds a note of another host, which has an age: clocks of hosts differ."""
        self._add(number, {**note, "at": self._clock() - note["age"]})

    def _add(self, number: int, note: dict[str, Any]) -> None:
        with self._lock:
            self._notes.setdefault(number, note)
            if note["code"] and self._failed_at is None:
                self._failed_at = self._clock()

    def add_lost_host(self, host: str) -> None:
        """Adds a host that is out of reach."""
        self.lost_hosts.append(host)

    def read_local(self) -> None:
        """Reads the notes of this host's guards."""
        for file in self._folder.glob("ended-*"):
            self._add(int(file.name.partition("-")[2]), json.loads(file.read_text("utf-8")))

    def is_over(self) -> bool:
        """Whether a host is lost, or an instance failed and mpirun did not end the others."""
        if self.lost_hosts:
            return True
        self.read_local()
        return self._failed_at is not None and self._clock() - self._failed_at > _PATIENCE

    def code(self) -> int:
        """The exit code of the launch: 0 where every instance ended with 0."""
        notes = self._noted()
        number = _first(notes)
        if number is not None:
            return int(notes[number]["code"])
        return 0 if len(notes) == self._instances else 1

    def failure(self, last_lines: Callable[[int], list[str]]) -> Failure | None:
        """The instance that failed first, None where none did."""
        notes = self._noted()
        number = _first(notes)
        if number is None:
            missing = sorted(set(range(self._instances)) - set(notes))
            if not missing:
                return None
            return Failure(missing[0], "was lost: nobody saw its end", last_lines(missing[0]))
        note = notes[number]
        how = f"exited with code {note['code']}"
        if note["code"] > 128:
            name = signal_name(note["code"] - 128)
            how = f"was killed by {name} (process {note['pid']} on {note['host']})"
        return Failure(number, how, last_lines(number))

    def _noted(self) -> dict[int, dict[str, Any]]:
        """A copy of the notes; threads of other hosts' cleaners may be adding to them."""
        with self._lock:
            return dict(self._notes)


def _first(notes: Mapping[int, Mapping[str, Any]]) -> int | None:
    """The instance that failed first; those that ended by SIGTERM because of it come after.

    They may seem earlier by the time that a note takes from host to host. SIGKILL follows SIGTERM
    by a second or more.
    """
    failed = [number for number, note in notes.items() if note["code"]]

    def order(number: int) -> tuple[bool, float]:
        note = notes[number]
        return note["code"] == _TERMINATED, note["at"]

    return min(failed, key=order, default=None)
