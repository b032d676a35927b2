"""Worker processes that wait for one request at a time, so that engines can be timed in turns.

A worker reads requests and writes answers as lines of JSON. Its standard output goes to the
standard error of the benchmark, so that nothing an engine prints gets between the answers.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import isa

Answer = dict[str, Any]

DISTURBED = 0.05
"""Share of the processors that other processes use from which on a time does not count."""
MOST_TURNS = 8
"""How many times the wanted turns are made to get so many undisturbed ones."""
_MOMENT = 0.4

NO_CACHE = {"IPU_CACHE_PATH": ""}
"""The user's own cache is left out: what is compiled is to be compiled."""

# What a shell may have set and an engine would be changed by, beside what `isa.cap` sets or unsets.
_SETTINGS = (
    "FLAGS_new_executor_serial_run",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_DEBUG_CPU_TYPE",
    "OMP_NUM_THREADS",
)


class Worker:
    """The benchmark's side of a worker.

    Args:
        script: the Python file that calls :func:`serve` when it is given `arguments`.
        arguments: its command line.
        settings: environment variables of this worker alone.
    """

    def __init__(self, script: str, arguments: list[str], settings: Mapping[str, str]) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in _SETTINGS}
        root = str(Path(script).resolve().parent.parent)
        paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
        environment |= {"PYTHONPATH": os.pathsep.join(paths), **NO_CACHE, **settings}
        self._process = subprocess.Popen(
            [sys.executable, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def ask(self, **request: object) -> Answer:
        """Sends a request and waits for its answer.

        Raises:
            RuntimeError: the worker died; its message is on standard error.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(
                f"the worker {' '.join(self._process.args[1:])} ended with exit status "  # type: ignore[index]
                f"{self._process.wait()} before it answered {request}; its message stands above."
            )
        answer: Answer = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends the worker."""
        self._process.kill()
        self._process.communicate()


def serve(answer: Callable[..., Answer]) -> None:
    """Answers requests from standard input until it ends.

    Args:
        answer: called with a request's members; each answer also gets the peak of this process's
            resident memory so far, ``peak_bytes``; the share of the processors that other
            processes used meanwhile, ``others``; and whether it used AVX-512 for the answer in
            spite of a cap, ``avx512``.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        start, cpu, busy = time.monotonic(), time.process_time(), _busy_seconds()
        result = answer(**json.loads(line))
        own = time.process_time() - cpu
        others = (_busy_seconds() - busy - own) / (time.monotonic() - start) / (os.cpu_count() or 1)
        result |= {
            "peak_bytes": peak_bytes(),
            "others": max(others, 0.0),
            "avx512": isa.has_used_avx512(start),
        }
        answers.write(json.dumps(result) + "\n")
        answers.flush()


def _busy_seconds() -> float:
    """Processor time that all processes of the machine have used; 0 where Linux does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except OSError:
        return 0.0
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet(seconds: float = 10.0) -> None:
    """Returns when no process has used the processors much for a moment, or after so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        busy = _busy_seconds()
        time.sleep(_MOMENT)
        if _busy_seconds() - busy < DISTURBED * _MOMENT * (os.cpu_count() or 1):
            return


def peak_bytes() -> int:
    """The peak of this process's resident memory so far."""
    # Linux counts in kilobytes; a child's `ru_maxrss` begins with what its parent held.
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
