"""What ``paddle_ipu.verify`` returns: what it found, as text, as a page, as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paddle_ipu.pages.layer_graph import flows_as_json
from paddle_ipu.verification.contents import ReportContents
from paddle_ipu.verification.page import page
from paddle_ipu.verification.text import brief, text


@dataclass
class VerificationReport(ReportContents):
    """What was compared, and what differs; its attributes are those of `ReportContents`.

    Where everything agrees the operators are compared when the page is first asked for.
    """

    def __post_init__(self) -> None:
        self._compare_operators: Callable[[], None] | None = None

    def postpone(self, compare_operators: Callable[[], None]) -> None:
        """Keeps what fills `operators`, for the page."""
        self._compare_operators = compare_operators

    def postponed(self) -> None:
        """Fills `operators` if that was put off."""
        compare_operators, self._compare_operators = self._compare_operators, None
        if compare_operators is not None:
            compare_operators()

    def summary(self, most: int = 12) -> str:
        """The report with at most so many operators, those that matter; short if all is well."""
        return brief(self) if self.ok and self.finite else text(self, most)

    def __str__(self) -> str:
        return text(self, None)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dicts.

        ``flows`` has the form of those of a prediction's report; ``source`` and ``target`` are
        numbers of ``operators``.
        """
        return asdict(self) | {
            "flows": flows_as_json(self.flows),
            "ok": self.ok,
            "finite": self.finite,
            "verdict": self.verdict,
        }

    def to_html(self) -> str:
        """A page that needs nothing else: tables that sort by a click on a column's head.

        It has every operator. Where they agree and were not asked for, they run now, once more on
        both sides.
        """
        self.postponed()
        return page(self)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_html` to a file."""
        Path(path).write_text(self.to_html(), encoding="utf-8")
