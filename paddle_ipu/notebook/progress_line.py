"""A bar with a text in the output of a notebook's cell, drawn anew in its place.

IPython belongs to the notebook; it is never imported where it is not loaded.
"""

from __future__ import annotations

import sys
from html import escape
from importlib import import_module
from typing import Protocol


class _Handle(Protocol):
    """IPython's ``DisplayHandle``, as far as it is used here."""

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        """Draws other data in the same place."""


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this process: IPython that is not in a terminal."""
    # Where another thread is importing it, it has no such function yet.
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and getattr(get_ipython(), "kernel", None) is not None


class ProgressLine:
    """One line, in the output of the cell that runs when it is first shown."""

    def __init__(self) -> None:
        self._handle: _Handle | None = None

    def show(self, share: float, text: str, plain: str) -> None:
        """Draws it.

        Args:
            share: what of the bar is full, from 0 to 1.
            text: beside the bar.
            plain: all of it, for front ends and files without HTML.
        """
        bar = f'<progress max="1" value="{share:.3f}"></progress> {share:.0%}'
        data = {"text/plain": plain, "text/html": f"{bar} {escape(text)}"}
        if self._handle is None:
            display = import_module("IPython.display").display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
