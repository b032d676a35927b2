"""Whether the instances go on: each counts the runs it begins, and ``poprun`` sees who stopped.

Instances wait for one another in every run, so that one that hangs stops all of them. It is the one
that has begun fewer runs than those that wait for it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paddle_ipu.distributed.instance import this_instance

FOLDER = "PADDLE_IPU_HEARTBEAT"
"""Folder with a file for each instance of this host, its counts; ``poprun`` sets it."""

_RUNS, _MEETINGS = 0, 8
"""Where a file has its counts, each of 8 bytes: runs, and collectives of all instances."""

_LOCK = threading.Lock()
_counts = {_RUNS: 0, _MEETINGS: 0}
_file = -1


def beat() -> None:
    """Counts a run, a compilation or a collective that begins; nothing where nobody watches."""
    _count(_RUNS)


def meet() -> None:
    """Counts what can only end where all instances begin it."""
    _count(_MEETINGS)


def _count(kind: int) -> None:
    global _file
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    with _LOCK:
        if _file < 0:
            path = Path(folder) / str(this_instance().index)
            _file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _counts[kind] += 1
        os.pwrite(_file, _counts[kind].to_bytes(8, "little"), kind)


def _counted(folder: Path, instance: int, kind: int) -> int:
    try:
        return int.from_bytes((folder / str(instance)).read_bytes()[kind : kind + 8], "little")
    except FileNotFoundError:
        return 0


def waiting_instances() -> list[int]:
    """The instances that wait for this one, in a collective that it has not begun."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return []
    others = range(this_instance().count)
    own = _counts[_MEETINGS]
    return [number for number in others if _counted(Path(folder), number, _MEETINGS) > own]


@dataclass(frozen=True, slots=True)
class Hang:
    """Instances that went no further.

    Attributes:
        instances: those that have begun fewer runs than others; empty where none is behind.
        text: what there is to say.
    """

    instances: tuple[int, ...]
    text: str


class Watch:
    """Watches the instances of this host.

    Args:
        folder: that of the counts.
        instances: how many there are.
        patience: seconds in which some instance must begin something.
        clock: gives seconds.
    """

    def __init__(
        self,
        folder: Path,
        instances: int,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._patience, self._clock = folder, patience, clock
        self._seen = (0,) * instances
        self._since = clock()

    def hang(self) -> Hang | None:
        """Who hangs; None as long as some instance goes on."""
        now = self._clock()
        instances = range(len(self._seen))
        found = tuple(_counted(self._folder, number, _RUNS) for number in instances)
        if found != self._seen:
            self._seen, self._since = found, now
        if now - self._since < self._patience:
            return None
        fewest, most = min(found), max(found)
        behind = tuple(number for number, count in enumerate(found) if count == fewest)
        text = f"no instance has begun a run for {self._patience:.0f} s"
        if fewest == most:
            return Hang((), f"{text}, and none is behind the others: each has begun {fewest}")
        named = ", ".join(map(str, behind))
        who = f"instance {named} hangs" if len(behind) == 1 else f"instances {named} hang"
        return Hang(behind, f"{who}: {text}; begun there are {fewest}, elsewhere up to {most}")
