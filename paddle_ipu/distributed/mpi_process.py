"""Runs ``mpirun``: forwards the output of instances, keeps their last lines, ends them all."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import IO

from paddle_ipu.distributed.hang_watch import Hang, Watch
from paddle_ipu.operating_system import processes

_TAG = re.compile(rb"\[\d+,(\d+)\]<(stdout|stderr)>: ?")
_EXITED = re.compile(r"Process name:\s*\[[^\]]*,(\d+)\]\s*Exit code:\s*(\d+)")
_KILLED = re.compile(r"process rank (\d+) with PID (\d+) on node (\S+) exited on\s+signal (\d+)")
_GRACE = 10.0
_LINES = 20
_GLANCE = 0.5
HUNG = 124
"""The exit code where the instances hung, as that of ``timeout``."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The instance that failed first.

    Attributes:
        instance: its number.
        how: words, for instance ``exited with code 3``.
        lines: the last lines that it printed.
    """

    instance: int
    how: str
    lines: Sequence[str]


@dataclass(slots=True)
class MpiProcess:
    """One run of ``mpirun``, which must be told to tag its output.

    Attributes:
        only: the instance whose output is shown; None shows that of all.
        keep_tags: whether what is shown begins with the instance's tag.
        watch: ends the instances where they hang; None does not look.
        hang: the instances that hung.
        is_over: whether mpirun is to be ended, as it goes on though an instance failed.
    """

    only: int | None = None
    keep_tags: bool = False
    watch: Watch | None = None
    is_over: Callable[[], bool] | None = None
    hang: Hang | None = None
    _last: dict[int, deque[str]] = field(default_factory=dict)
    _own: list[str] = field(default_factory=list)
    _signal: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        started: Callable[[int], None] = lambda pid: None,
    ) -> int:
        """Runs a command to its end.

        A signal that asks ``poprun`` to end ends every instance; so does the death of ``poprun``.

        Args:
            command: the words of the command line.
            environment: of the process.
            started: called with the process's id.

        Returns:
            The exit code; 128 + the signal that ended it; `HUNG`.
        """
        with self._ending():
            process = self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
            if self._signal:
                _end(process)
            started(process.pid)
            readers = [
                threading.Thread(target=self._forward, args=(stream, to), daemon=True)
                for stream, to in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
            ]
            for reader in readers:
                reader.start()
            code = self._wait(process)
        for reader in readers:
            reader.join(timeout=_GRACE)
        if self._signal:
            return 128 + self._signal
        if self.hang is not None:
            return HUNG
        return 128 - code if code < 0 else code

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        watched = self.watch is not None or self.is_over is not None
        while watched:
            try:
                return process.wait(timeout=_GLANCE)
            except subprocess.TimeoutExpired:
                if self._signal:
                    continue
            if self.watch is not None:
                self.hang = self.watch.hang()
            if self.hang is not None or (self.is_over is not None and self.is_over()):
                _end(process)
                watched = False
        return process.wait()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Turns signals that ask to end into the end of all instances."""

        def end(number: int, frame: FrameType | None) -> None:
            process, is_first = self._process, not self._signal
            self._signal = self._signal or number
            if process is not None:
                # The second signal kills.
                (_end if is_first else _kill_group)(process)

        asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
        before = {number: signal.signal(number, end) for number in asked}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward(self, stream: IO[bytes], to: IO[str]) -> None:
        for line in stream:
            match = _TAG.match(line)
            if match is None:
                text = line.decode(errors="replace")
                self._own.append(text)
                _write(to, line)
                continue
            rank = int(match.group(1))
            rest = line[match.end() :]
            kept = self._last.setdefault(rank, deque(maxlen=_LINES))
            kept.append(rest.decode(errors="replace").rstrip("\n"))
            if self.only is None or rank == self.only:
                _write(to, line if self.keep_tags else rest)

    @property
    def ended_by(self) -> str:
        """The signal that asked to end, "" where none did."""
        return signal_name(self._signal) if self._signal else ""

    def failure(self) -> Failure | None:
        """The instance that mpirun says failed first; None where it names none."""
        text = "".join(self._own)
        killed = _KILLED.search(text)
        if killed is not None:
            name = signal_name(int(killed.group(4)))
            how = f"was killed by {name} (process {killed.group(2)} on {killed.group(3)})"
            return self._failure(int(killed.group(1)), how)
        exited = _EXITED.search(text)
        if exited is not None:
            return self._failure(int(exited.group(1)), f"exited with code {exited.group(2)}")
        return None

    def _failure(self, rank: int, how: str) -> Failure:
        return Failure(rank, how, self.last_lines(rank))

    def last_lines(self, rank: int) -> list[str]:
        """The last lines that an instance printed."""
        return list(self._last.get(rank, ()))


def signal_name(number: int) -> str:
    """A signal's name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def discard(to: IO[str]) -> None:
    """Redirects a stream that nobody reads any more to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, to.fileno())
    os.close(null)


def _write(to: IO[str], line: bytes) -> None:
    try:
        # Several instances print at the same time: a line goes out in one piece.
        to.buffer.write(line)  # type: ignore[attr-defined]
        to.flush()
    except BrokenPipeError:
        # Nobody reads any more, as behind `| head`. The instances end as by SIGPIPE; their output
        # is still read, or they would block.
        discard(to)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGPIPE)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks mpirun to end, and kills it where it does not."""
    process.terminate()
    timer = threading.Timer(_GRACE, _kill_group, (process,))
    timer.daemon = True
    timer.start()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _end_with_parent() -> None:
    """In the new process: mpirun is told to end when poprun dies."""
    processes.end_with_parent()
