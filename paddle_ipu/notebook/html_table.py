"""A small HTML table, as notebooks show one: no script, no request, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_LEFT = "text-align:left"
_CAPTION = "caption-side:top;text-align:left;white-space:pre-line"


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table.

    Args:
        head: the columns' names.
        rows: as many cells each.
        caption: what stands above it; its lines stay lines.
    """
    lines = ["<table>"]
    if caption:
        lines.append(f'<caption style="{_CAPTION}">{escape(caption)}</caption>')
    names = "".join(f'<th scope="col" style="{_LEFT}">{escape(name)}</th>' for name in head)
    lines.append(f"<thead><tr>{names}</tr></thead>")
    lines.append("<tbody>")
    for row in rows:
        cells = "".join(f'<td style="{_LEFT}">{escape(cell)}</td>' for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    lines += ["</tbody>", "</table>"]
    return "\n".join(lines) + "\n"
