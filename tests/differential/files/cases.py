"""Damaged files, each made by a seed and a number alone, and what becomes of one."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paddle_ipu.errors import PaddleIpuError, popart_exception
from paddle_ipu.serving.http.protocol import RequestError
from tests.checkout import is_of_the_package
from tests.differential.files import byte_edits
from tests.differential.files.kinds import KINDS, Damage, Damaged, Kind

OURS = (PaddleIpuError, popart_exception, RequestError)
"""What a file may be refused with."""

MOST_SECONDS = 5.0
"""Of a processor's time, that a file may take."""


@dataclass(frozen=True)
class Case:
    """A damaged file.

    Attributes:
        number: of the case.
        kind: of the file.
        sound: the name of what was damaged.
        edits: (edit, seed of its generator), in order.
    """

    number: int
    kind: Kind
    sound: str
    edits: Sequence[tuple[Damage, int]]

    @property
    def title(self) -> str:
        """The kind, the sound file and what was done to it."""
        done = ", ".join(edit.__name__.strip("_") for edit, _ in self.edits)
        return f"{self.kind.name} {self.sound}: {done}"

    def damaged(self) -> Damaged:
        """The file."""
        sound = self.kind.sound()
        content, beside = sound[self.sound]
        others = [each for each, _ in sound.values()]
        for edit, seed in self.edits:
            content = edit(content, random.Random(seed), others)
        return Damaged(content, beside, self.number)


@dataclass(frozen=True)
class Outcome:
    """What became of a file.

    Attributes:
        name: ``read``, ``refused``, or ``fails``.
        error: of one that fails: the same for those of one cause.
        detail: the traceback.
    """

    name: str
    error: str = ""
    detail: str = ""


def make(seed: int, number: int) -> Case:
    """The case of that number."""
    choose = random.Random(f"files {seed} {number}")
    kind = choose.choices(KINDS, [kind.share for kind in KINDS])[0]
    sound = choose.choice(sorted(kind.sound()))
    edits = []
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        knows_format = kind.damages and choose.random() < 0.75
        edit = choose.choice(kind.damages if knows_format else byte_edits.EDITS)
        edits.append((edit, choose.getrandbits(32)))
    return Case(number, kind, sound, edits)


def attempt(case: Case) -> Outcome:
    """Reads the file of a case."""
    damaged = case.damaged()
    start = time.process_time()
    name, error, detail = "read", "", ""
    try:
        case.kind.read(damaged)
    except OURS:
        name = "refused"
    except Exception as failure:
        name, error = "fails", f"{case.kind.name}: {_cause(failure)}"
        detail = "".join(traceback.format_exception(failure, limit=-12))
    taken = time.process_time() - start
    if taken > MOST_SECONDS and name != "fails":
        name, error = "fails", f"{case.kind.name}: slow"
        detail = f"{name} after {taken:.1f} s of a processor\n"
    return Outcome(name, error, detail)


def _cause(failure: BaseException) -> str:
    """The error's type and the innermost line of this package."""
    frames = traceback.extract_tb(failure.__traceback__)
    own = [f for f in frames if is_of_the_package(f.filename)]
    place = own[-1] if own else frames[-1]
    return f"{type(failure).__name__} in {Path(place.filename).name}:{place.lineno} {place.name}"


def shrunk(case: Case, error: str, seconds: float = 5.0) -> tuple[Case, bytes]:
    """The case with the fewest edits that still fails so, and the shortest such content.

    Args:
        case: fails.
        error: its cause.
        seconds: that may be spent.
    """
    end = time.monotonic() + seconds
    for at in reversed(range(len(case.edits))):
        fewer = Case(case.number, case.kind, case.sound, [*case.edits[:at], *case.edits[at + 1 :]])
        if fewer.edits and attempt(fewer).error == error:
            case = fewer
    return case, _shortest(case, error, end)


def _shortest(case: Case, error: str, end: float) -> bytes:
    """The content without pieces that the failure does not need, larger ones first."""
    damaged = case.damaged()
    content = damaged.content

    def fails(shorter: bytes) -> bool:
        def same(_: bytes, __: random.Random, ___: Sequence[bytes]) -> bytes:
            return shorter

        return attempt(Case(case.number, case.kind, case.sound, [(same, 0)])).error == error

    size = len(content) // 2
    while size:
        at = 0
        while at < len(content):
            if time.monotonic() > end:
                return content
            shorter = content[:at] + content[at + size :]
            if fails(shorter):
                content = shorter
            else:
                at += size
        size //= 2
    return content
