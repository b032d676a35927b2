"""Tables of a page: without scripts plain ones, with them sorted by their heads and searched.

A browser takes longer over a table of a thousand rows than over the whole rest of the page. So
what is long is written within ``<noscript>``: where scripts run, that is a text, which
``parts/tables.js`` makes rows of when they are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_AT_ONCE = 30
"""A table of more rows is written within ``<noscript>``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's head.

    Attributes:
        name: as text.
        number: its cells are numbers.
        group: where a table is wide, the columns of one group are shown at a time; "" always.
    """

    name: str
    number: bool = False
    group: str = ""


def text_cell(text: str, *, title: str = "", kind: str = "") -> str:
    """A cell with a text; `title` is what it is in full, `kind` its class."""
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' title="{escape(title)}"' if title and title != text else ""
    return f"<td{attributes}>{escape(text)}</td>"


def number_cell(value: float | None, text: str) -> str:
    """A cell with a number, which is sorted by its value and not by its text."""
    if value is None:
        return f'<td class="n">{escape(text)}</td>'
    # JavaScript's Number() reads "Infinity", not "inf".
    key = str(value).replace("inf", "Infinity")
    return f'<td class="n" data-sort="{key}">{escape(text)}</td>'


def row(cells: Sequence[str], *, kind: str = "", attributes: str = "") -> str:
    """A row of cells; `kind` is its class."""
    kind = f' class="{kind}"' if kind else ""
    return f"<tr{kind}{attributes}>{''.join(cells)}</tr>"


def table(
    columns: Sequence[Column], rows: Iterable[str], *, key: str = "", caption: str = ""
) -> str:
    """The table in a box that scrolls where it is too wide.

    Args:
        columns: as many as each row has cells.
        rows: of :func:`row`.
        key: the element's id.
        caption: what stands above it, as text.
    """
    heads = "".join(map(_head, columns))
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    identity = f' id="{key}"' if key else ""
    written = list(rows)
    body = "\n".join(written)
    whole = (
        f"<table{identity}>{said}<thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table>"
    )
    if len(written) > _AT_ONCE:
        whole = f"<noscript>{whole}</noscript>"
    return f'<div class="scroll">{whole}</div>\n'


def _head(column: Column) -> str:
    kind = ' class="n"' if column.number else ""
    group = f' data-group="{escape(column.group)}"' if column.group else ""
    return f'<th scope="col"{kind}{group}>{escape(column.name)}</th>'
