"""A process that reads damaged files and writes one line of JSON for each.

    python -m tests.differential.files.worker SEED FIRST END

The first line is written when it is ready. A file of its own process group, with a bound on memory:
what the parent does not hear of crashed, or did not end.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

MEMORY = 4 << 30
"""Bytes of address space beyond those of the sound files."""


def main(seed: int, first: int, end: int) -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    # Paddle and XLA write to the standard streams.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    import paddle

    import paddle_ipu
    from tests.differential.files import cases

    paddle_ipu.activate()
    paddle.enable_static()
    logging.getLogger("paddle_ipu").setLevel(logging.CRITICAL)
    _read_sound(cases)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    out.write("{}\n")
    known: set[str] = set()
    for number in range(first, end):
        case = cases.make(seed, number)
        outcome = cases.attempt(case)
        line: dict[str, Any] = {"kind": case.kind.name, "outcome": outcome.name}
        if outcome.name == "fails":
            line |= {"error": outcome.error, "detail": outcome.detail, "title": case.title}
            if outcome.error not in known and "slow" not in outcome.error:
                known.add(outcome.error)
                case, content = cases.shrunk(case, outcome.error)
                line |= {"title": case.title, "content": repr(content[:2000])}
        out.write(json.dumps(line) + "\n")
        if number % 500 == 0:
            _read_sound(cases)


def _read_sound(cases: Any) -> None:
    """Reads every sound file: they are read, whatever was read before."""
    for kind in cases.KINDS:
        for name in kind.sound():
            kind.read(cases.Case(1, kind, name, ()).damaged())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
