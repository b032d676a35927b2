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
        environment |= {"PYTHONPATH": os.pathsep.join(paths), **settings}
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
            resident memory so far, ``peak_bytes``, and whether it used AVX-512 for the answer in
            spite of a cap, ``avx512``.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        start = time.monotonic()
        result = answer(**json.loads(line))
        result |= {"peak_bytes": peak_bytes(), "avx512": isa.has_used_avx512(start)}
        answers.write(json.dumps(result) + "\n")
        answers.flush()


def peak_bytes() -> int:
    """The peak of this process's resident memory so far."""
    # Linux counts in kilobytes; a child's `ru_maxrss` begins with what its parent held.
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
