"""One instance of BERT's pretraining that writes its process id, and fails where it is told to.

Run by random_kills. ``DOOM`` says who fails, where, at which call and how: ``1 step 7 exit``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FAILURE = "this instance was told to fail"
EXIT_CODE = 3


def doom(where: str, call: int, how: str) -> None:
    """Has a method of DeviceProgram fail at its `call`-th call."""
    from examples.bert.stages.device import DeviceProgram

    before: Callable[..., Any] = getattr(DeviceProgram, where)
    calls = 0

    def failing(self: DeviceProgram, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and how == "exit":
            sys.stderr.write(f"{FAILURE}\n")
            sys.exit(EXIT_CODE)
        if calls == call:
            raise RuntimeError(FAILURE)
        return before(self, *arguments)

    setattr(DeviceProgram, where, failing)


def main() -> int:
    """Runs the stage as this instance."""
    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    file = Path(os.environ["PIDS"]) / rank
    part = file.with_suffix(".part")
    part.write_text(str(os.getpid()))
    part.rename(file)
    from examples.bert import run_pretrain

    told = os.environ.get("DOOM", "").split()
    if told and told[0] == rank:
        doom(told[1], int(told[2]), told[3])
    return run_pretrain.main()


if __name__ == "__main__":
    sys.exit(main())
