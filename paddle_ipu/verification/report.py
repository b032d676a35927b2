"""What ``paddle_ipu.verify`` returns: what it found, as text, as a page, as plain data."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paddle_ipu.verification.contents import ReportContents
from paddle_ipu.verification.page import page
from paddle_ipu.verification.text import text


@dataclass(slots=True)
class VerificationReport(ReportContents):
    """What was compared, and what differs; its attributes are those of :class:`ReportContents`."""

    def summary(self, most: int = 12) -> str:
        """The report with at most so many operators: those that matter."""
        return text(self, most)

    def __str__(self) -> str:
        return text(self, None)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dicts."""
        return asdict(self) | {"ok": self.ok, "finite": self.finite}

    def to_html(self) -> str:
        """A page that needs nothing else: tables that sort by a click on a column's head."""
        return page(self)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`to_html` to a file."""
        Path(path).write_text(self.to_html(), encoding="utf-8")
