"""Differences that are explained: by Paddle's kernel, by the IPU, or by an issue that is open."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.operators.use import Case


@dataclass(frozen=True, slots=True)
class Explained:
    """A kind of difference that is no news.

    Attributes:
        op: regular expression for the operator's whole name.
        title: regular expression that is searched in the finding's title and detail.
        why: the reason, and where it stands.
        open: ours, and to be mended.
    """

    op: str
    title: str
    why: str
    open: bool = False


ROWS: tuple[Explained, ...] = ()
"""The first that fits explains a finding."""


def explanation(case: Case, title: str, detail: str) -> Explained | None:
    """The row that explains a finding, None for news."""
    for row in ROWS:
        if any(re.fullmatch(row.op, use.op) for use in case.steps) and re.search(
            row.title, f"{title}\n{detail}"
        ):
            return row
    return None
