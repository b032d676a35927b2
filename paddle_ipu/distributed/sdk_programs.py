"""Graphcore's own ``poprun`` and ``vipu``: on hardware ours, of the same names, become them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_TRUE = frozenset({"1", "true", "True", "TRUE"})


def become(name: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Becomes Graphcore's program by exec where there is one for this run; else does nothing.

    Args:
        name: of the program.
        words: its command line without that.
    """
    program = of_sdk(name, environment)
    if program is not None:
        os.execv(program, [program, *words])


def of_sdk(name: str, environment: Mapping[str, str]) -> str | None:
    """Graphcore's program where ``PADDLE_IPU_DEVICE`` and the SDK select it, else None."""
    asked = environment.get("PADDLE_IPU_DEVICE", "auto")
    if asked == "model" or (asked == "auto" and not environment.get("POPLAR_SDK_ENABLED")):
        return None
    if asked == "auto" and environment.get("POPLAR_IPUMODEL", "") in _TRUE:
        return None
    for folder in environment.get("PATH", "").split(os.pathsep):
        candidate = Path(folder or ".") / name
        if os.access(candidate, os.X_OK) and candidate.is_file() and not _is_ours(candidate):
            return str(candidate)
    return None


def _is_ours(program: Path) -> bool:
    with program.open("rb") as file:
        return b"paddle_ipu" in file.read(4096)
