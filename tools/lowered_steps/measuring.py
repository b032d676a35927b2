"""Lowers the steps of checkouts in processes of their own, several at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

PACKAGE = ("paddle_ipu", "popdist", "_paddle_ipu_autoload.py")
"""What belongs to the checkout that is measured; all else is this one's."""

_POLL_SECONDS = 1.0
_UNSET = ("PADDLE_IPU_", "POPLAR_", "POPART_", "IPUOF_", "JAX_", "XLA_")

Record = dict[str, Any]
Key = tuple[str, str, str]
"""Paddle's version, whether kernels are on, and the program's name."""


class MeasuringError(RuntimeError):
    """A process ended before it had tried every program."""


@dataclass(frozen=True, slots=True)
class Side:
    """A checkout whose steps are lowered.

    Attributes:
        name: as messages have it.
        folder: where the package's folder is.
    """

    name: str
    folder: Path


@dataclass
class _Child:
    side: Side
    python: Path
    share: str
    links: Path
    stem: Path
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def out(self) -> Path:
        return self.stem.with_suffix(".jsonl")

    @property
    def errors(self) -> Path:
        return self.stem.with_suffix(".log")

    def start(self, only: str) -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(_UNSET)
        } | {
            "PYTHONPATH": f"{self.links}{os.pathsep}{ROOT}",
            "PYTHONHASHSEED": "0",
            "PADDLE_IPU_AUTOLOAD": "0",
            # Kernels are there when the process says so.
            "PADDLE_IPU_ONEDNN": "0",
            "JAX_PLATFORMS": "cpu",
        }
        command = [str(self.python), "-P", "-m", "tools.lowered_steps.child"]
        command += ["--out", str(self.out), "--share", self.share, "--only", only]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, env=environment, cwd=self.links, stdout=errors, stderr=errors,
                start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def progress(self) -> tuple[int, int]:
        """How many lines are written, and how many will be; 0 as long as that is not known."""
        content = self.out.read_bytes() if self.out.exists() else b""
        head, end, rest = content.partition(b"\n")
        return rest.count(b"\n"), 2 * int(json.loads(head)["programs"]) if end else 0

    def results(self) -> dict[Key, Record]:
        """What a process that ended has written."""
        text = self.out.read_text() if self.out.exists() else ""
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        head, *records = map(json.loads, lines or ['{"programs": -1}'])
        if self.process.returncode or len(records) != 2 * head["programs"]:
            last = records[-1]["name"] if records else "any program"
            said = self.errors.read_text(errors="replace").strip().splitlines()[-15:]
            raise MeasuringError(
                f"{self.side.name}: the process ended with {self.process.returncode} after "
                f"{last}:\n" + "\n".join(said)
            )
        return {(head["paddle"], r["kernels"], r["name"]): r for r in records}


def link(checkout: Path, folder: Path) -> None:
    """Makes a folder of links to a checkout's package, which Python is to search first.

    Raises:
        MeasuringError: it is no checkout of the package.
    """
    folder.mkdir()
    for name in PACKAGE:
        if not (checkout / name).exists():
            raise MeasuringError(f"{checkout} has no {name}; expected a checkout of paddle_ipu")
        (folder / name).symlink_to((checkout / name).resolve())


def measure(
    sides: Sequence[Side],
    pythons: Sequence[Path],
    jobs: int,
    only: str = "",
    tell: Callable[[int, int], None] = lambda done, known: None,
) -> list[dict[Key, Record]]:
    """What each side's programs are lowered to, with the Paddle of each Python.

    Raises:
        MeasuringError: a side is no checkout, or its process ended early.
    """
    with tempfile.TemporaryDirectory(prefix="lowered-steps-") as made:
        folder = Path(made)
        for index, side in enumerate(sides):
            link(side.folder, folder / f"links{index}")
        # Checkouts and Pythons at once, each on its own, as far as there are jobs for them.
        shares = max(1, -(-jobs // (len(sides) * len(pythons))))
        children = [
            _Child(side, python, f"{share}/{shares}", folder / f"links{index}",
                   folder / f"{number}-{share}-{index}")
            for number, python in enumerate(pythons)
            for share in range(shares)
            for index, side in enumerate(sides)
        ]  # fmt: skip
        _run(children, jobs, only, tell)
        return [_joined(c.results() for c in children if c.side is side) for side in sides]


def _run(
    children: Sequence[_Child], jobs: int, only: str, tell: Callable[[int, int], None]
) -> None:
    waiting, running = list(children), list[_Child]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(waiting.pop(0))
                running[-1].start(only)
            time.sleep(_POLL_SECONDS)
            for child in [child for child in running if child.process.poll() is not None]:
                child.results()
                running.remove(child)
            done, known = zip(*(child.progress() for child in children), strict=True)
            # Those that have not begun are taken to be as long as the others.
            tell(sum(done), sum(known) * len(known) // max(1, len(known) - known.count(0)))
    finally:
        for child in running:
            child.stop()


def _joined(parts: Iterable[Mapping[Key, Record]]) -> dict[Key, Record]:
    return {key: record for part in parts for key, record in part.items()}
