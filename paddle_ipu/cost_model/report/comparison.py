"""What ``report.compare`` returns: a comparison at a prompt, in a notebook, in files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddle_ipu.cost_model.report.comparison_page import comparison_page, comparison_tables
from paddle_ipu.cost_model.report.comparison_text import comparison_text, short_comparison
from paddle_ipu.cost_model.report.differences import Change, Differences
from paddle_ipu.cost_model.report.directory import write_form
from paddle_ipu.cost_model.report.figures import Figures

VERSION = 1


@dataclass(frozen=True, repr=False)
class Comparison:
    """What grew and what shrank between two reports.

    ``print`` shows what ``paddle-ipu report --compare`` prints, a prompt or a notebook the most
    important part of it.

    Attributes:
        contents: everything that is known, as objects.
    """

    contents: Differences

    def __str__(self) -> str:
        return comparison_text(self.contents)

    def __repr__(self) -> str:
        return short_comparison(self.contents)

    def _repr_html_(self) -> str:
        return comparison_tables(self.contents)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, as ``paddle-ipu report --compare --json`` writes it.

        Before and after are None for a layer that only the other report has.
        """
        found = self.contents
        return {
            "version": VERSION,
            "predicted": True,
            "before": _report(found.before),
            "after": _report(found.after),
            "settings": [
                {"name": name, "before": a, "after": b} for name, a, b in found.settings
            ],
            "totals": [_change(total, "name") for total in found.totals],
            "layers": {
                layers.key: {
                    "changes": [_change(row, "layer") for row in layers.changes],
                    "unchanged": layers.unchanged,
                }
                for layers in found.layers
            },
            "only_before": list(found.gone),
            "only_after": list(found.new),
        }  # fmt: skip

    def to_json(self) -> str:
        """``to_dict()`` as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """One page that needs no other file and no network."""
        return comparison_page(self.contents)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes ``to_html()`` to a file.

        Raises:
            ReportError: it cannot be written.
        """
        write_form(Path(path), self.to_html())


def _report(figures: Figures) -> dict[str, Any]:
    return {"source": figures.source, "name": figures.name, "machine": figures.machine}


def _change(change: Change, named: str) -> dict[str, Any]:
    return {
        named: change.name, "unit": change.unit, "before": change.before, "after": change.after,
        "change": change.amount,
    }  # fmt: skip
