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
"""Folder with a file for each instance of this host; ``poprun`` sets it.

A file has two numbers of 8 bytes: of runs that the instance has begun, and of its process.
"""

_LOCK = threading.Lock()
_runs = _meetings = 0
_file = -1


def beat() -> None:
    """Counts a run, a compilation or a collective that begins; nothing where nobody watches."""
    global _file, _runs
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    with _LOCK:
        if _file < 0:
            path = Path(folder) / str(this_instance().index)
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


def _counted(folder: Path, instance: int) -> tuple[int, int]:
    """(Runs that an instance has begun, its process); 0 where it has begun none."""
    try:
        content = (folder / str(instance)).read_bytes()
    except FileNotFoundError:
        return 0, 0
    return int.from_bytes(content[:8], "little"), int.from_bytes(content[8:16], "little")


_Process = tuple[str, float]


def _process(number: int) -> _Process:
    """(State of a process, by the kernel's letter; seconds of processors it has used)."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except OSError:
        return "", 0.0
    fields = text.rpartition(")")[2].split()
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Hang:
    """Instances that went no further.

    Attributes:
        instances: those that have begun fewer runs than others; where none is behind, those that
            are stopped, or the one that computes while the others wait; empty where none differs.
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
        process: Callable[[int], tuple[str, float]] = _process,
    ) -> None:
        self._folder, self._patience, self._clock = folder, patience, clock
        self._process = process
        self._seen = (0,) * instances
        self._since = clock()
        self._used: list[float] = []

    def hang(self) -> Hang | None:
        """Who hangs; None as long as some instance goes on."""
        now = self._clock()
        instances = range(len(self._seen))
        read = [_counted(self._folder, number) for number in instances]
        found = tuple(count for count, _ in read)
        processes = [self._process(process) for _, process in read]
        if found != self._seen or not self._used:
            self._seen, self._since = found, now
            self._used = [used for _, used in processes]
        if now - self._since < self._patience:
            return None
        fewest, most = min(found), max(found)
        behind = tuple(number for number, count in enumerate(found) if count == fewest)
        text = f"no instance has begun a run for {self._patience:.0f} s"
        if fewest < most:
            return Hang(
                behind, f"{_who(behind)}: {text}; begun there are {fewest}, elsewhere up to {most}"
            )
        each = f"each has begun {fewest}"
        stopped = tuple(number for number in instances if processes[number][0] in ("T", "t"))
        if stopped:
            return Hang(
                stopped, f"{_who(stopped)}: {text}, {each}, and there the process is stopped"
            )
        used = [now - at for (_, now), at in zip(processes, self._used, strict=True)]
        busy = tuple(number for number in instances if used[number] > self._patience / 2)
        if len(busy) == 1:
            return Hang(busy, f"{_who(busy)}: {text}, {each}, and it computes while others wait")
        return Hang((), f"{text}, and none is behind the others: {each}")


def _who(instances: tuple[int, ...]) -> str:
    named = ", ".join(map(str, instances))
    return f"instance {named} hangs" if len(instances) == 1 else f"instances {named} hang"
