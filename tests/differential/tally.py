"""What a search found: how many cases of which outcome, and each finding with its reproduction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """A case whose outcome nothing explains.

    Attributes:
        seed: of the search.
        number: of the case in it; with the seed it makes the same case again.
        title: what it is about, the same for cases of one cause: ``argsort: dtype``.
        detail: got and expected, the error, the shrunk program; several lines.
    """

    seed: int
    number: int
    title: str
    detail: str


@dataclass
class Tally:
    """The outcomes of a search.

    Attributes:
        outcomes: outcome -> number of cases. Names say whose outcome it is: ``agrees``,
            ``not supported`` (by an honest error of ours), ``refused by Paddle``, ``Paddle
            crashed``, ``diverges in Paddle``, ``differs``, ``fails`` (by another error of ours).
        subjects: what was tried (an operator, an optimizer, a kind of file) -> number of cases.
        findings: the cases that ``differ`` or ``fail``.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    subjects: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return self.outcomes.total()

    def add(self, other: Tally) -> None:
        self.outcomes.update(other.outcomes)
        self.subjects.update(other.subjects)
        self.findings.extend(other.findings)
