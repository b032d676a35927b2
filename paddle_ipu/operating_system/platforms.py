"""The platforms: on which one the package is tested, and what the others lack.

``setup.py`` runs this file on its own, before anything is installed.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Platform:
    """A system on a kind of processor.

    Attributes:
        name: in words.
        system: as ``sys.platform`` has it.
        machines: as ``platform.machine()`` has them, in lower case; none for any other.
        lacks: what is missing there, as a sentence goes on; nothing where the tests run.
    """

    name: str
    system: str
    machines: tuple[str, ...]
    lacks: tuple[str, ...]

    @property
    def is_tested(self) -> bool:
        """Whether the tests run on it, and the wheel is made for it."""
        return not self.lacks

    @property
    def has_kernels(self) -> bool:
        """Whether the kernels in C++ are built for it: elsewhere Paddle's wheel has no oneDNN."""
        return self.is_tested


_KERNELS = "the compiled kernels (XLA computes in their place)"
_JOBS = ("poprun", "the V-IPU service")
_OWNERS = "checks of whom a file of compiled programs belongs to"

PLATFORMS = (
    Platform("Linux on x86-64", "linux", ("x86_64", "amd64"), ()),
    Platform("Linux on aarch64", "linux", ("aarch64", "arm64"), (_KERNELS,)),
    Platform("macOS on arm64", "darwin", ("arm64", "aarch64"), (_KERNELS, *_JOBS)),
    Platform("Windows on x86-64", "win32", ("amd64", "x86_64"), (_KERNELS, *_JOBS, _OWNERS)),
)
"""Those that have wheels of PaddlePaddle and of JAX; docs/compatibility.md repeats them."""


def this_platform() -> Platform:
    """The one that this process runs on, in the table or not."""
    machine = platform.machine()
    for known in PLATFORMS:
        if sys.platform.startswith(known.system) and machine.lower() in known.machines:
            return known
    name = f"{platform.system() or sys.platform} on {machine or 'an unknown processor'}"
    jobs = () if runs_jobs() else _JOBS
    lacks = (_KERNELS, *jobs, "wheels of PaddlePaddle or of JAX")
    return Platform(name, sys.platform, (), lacks)


def what_is_missing() -> str:
    """One sentence on what this platform lacks; "" on a tested one."""
    here = this_platform()
    if here.is_tested:
        return ""
    tested = _listed([each.name for each in PLATFORMS if each.is_tested])
    return f"paddle_ipu is tested on {tested} alone; {here.name} lacks {_listed(here.lacks)}."


def describe_platforms() -> str:
    """The table as Markdown, for the documentation."""
    lines = ["| platform | tested | what is missing |", "| --- | --- | --- |"]
    for each in PLATFORMS:
        tested = "yes" if each.is_tested else "no"
        lines.append(f"| {each.name} | {tested} | {_listed(each.lacks) or 'nothing'} |")
    return "\n".join(lines) + "\n"


def runs_jobs() -> bool:
    """Whether ``poprun`` and the V-IPU service work here: they look at processes in ``/proc``."""
    return sys.platform.startswith("linux")


def _listed(names: Sequence[str]) -> str:
    """As a sentence has them: "a, b and c"."""
    *others, last = names or ("",)
    return f"{', '.join(others)} and {last}" if others else last
