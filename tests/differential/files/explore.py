"""Explores damaged files: each is read, or refused by an error of ours, soon and in bounded memory.

They are read in a process of its own. A file with which it crashes, or does not end, is a finding,
and another process goes on behind it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from tests.differential.tally import Finding, Tally

LONGEST = 60.0
"""Seconds after which a file is given up; one that takes 5 s of a processor fails before."""
START = 300.0
"""Seconds in which a process begins, on a machine with much to do."""

Line = Mapping[str, Any]


class NotStartedError(Exception):
    """The process for damaged files did not begin; the message has what it wrote."""


def explore(cases: int, seed: int, *, first: int = 0) -> Tally:
    """Reads the files `first` to ``first + cases`` of a seed.

    Returns:
        Outcomes ``read``, ``refused`` and ``fails``; a finding for each cause.

    Raises:
        NotStartedError: sound files cannot be read.
    """
    tally = Tally()
    number, end = first, first + cases
    while number < end:
        worker = _Worker(seed, number, end)
        try:
            if worker.line(START) is None:
                raise NotStartedError(worker.ended())
            while number < end:
                line = worker.line(LONGEST)
                _note(tally, seed, number, line or worker.lost(seed, number))
                number += 1
                if line is None:
                    break
        finally:
            worker.close()
    return tally


def _note(tally: Tally, seed: int, number: int, line: Line) -> None:
    tally.outcomes[line["outcome"]] += 1
    tally.subjects[line["kind"]] += 1
    if "error" in line and line["error"] not in {finding.title for finding in tally.findings}:
        content = f"shrunk to {line['content']}\n" if "content" in line else ""
        detail = f"{line['title']}\n{content}{line['detail']}"
        tally.findings.append(Finding(seed, number, line["error"], detail))


class _Worker:
    """A process that reads the files from `first` to `end`."""

    def __init__(self, seed: int, first: int, end: int) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.differential.files.worker",
                *map(str, (seed, first, end)),
            ],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._unread = b""

    def line(self, seconds: float) -> Line | None:
        """The next line; None where the process ended or the time is over."""
        until = time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = until - time.monotonic()
            if left < 0 or not select.select([self._output], [], [], left)[0]:
                return None
            part = os.read(self._output, 1 << 16)
            if not part:
                return None
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        found: Line = json.loads(line)
        return found

    def lost(self, seed: int, number: int) -> Line:
        """What a line would have said of the file with which the process was lost."""
        from tests.differential.files import cases

        case = cases.make(seed, number)
        try:
            code = self._process.wait(1)
            name = signal.Signals(-code).name if code < 0 else f"code {code}"
            error = f"{case.kind.name}: the process ended ({name})"
        except subprocess.TimeoutExpired:
            error = f"{case.kind.name}: no end after {LONGEST:.0f} s"
        return {
            "kind": case.kind.name,
            "outcome": "fails",
            "error": error,
            "title": case.title,
            "content": repr(case.damaged().content[:2000]),
            "detail": self.ended(),
        }

    def ended(self) -> str:
        """Ends the process; gives the end of what it wrote to its standard error."""
        self.end()
        self._errors.seek(0)
        return self._errors.read()[-6000:].decode(errors="replace")

    def end(self) -> None:
        """Ends the process, however it is."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Ends the process; nothing of it can be read any more."""
        self.end()
        self._errors.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
