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
"""Folder with a file for each instance, its count; ``poprun --hang-timeout`` sets it."""

_BYTES = 8
_LOCK = threading.Lock()
_begun = 0
_file = -1


def beat() -> None:
    """Counts a run, a compilation or a collective that begins; nothing where nobody watches."""
    global _begun, _file
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    with _LOCK:
        if _file < 0:
            path = Path(folder) / str(this_instance().index)
            _file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _begun += 1
        os.pwrite(_file, _begun.to_bytes(_BYTES, "little"), 0)


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
        found = tuple(map(self._count, range(len(self._seen))))
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

    def _count(self, number: int) -> int:
        try:
            return int.from_bytes((self._folder / str(number)).read_bytes(), "little")
        except FileNotFoundError:
            return 0
