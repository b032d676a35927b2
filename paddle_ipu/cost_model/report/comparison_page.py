"""A comparison of two reports as HTML: a page in the report's look, and tables for a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from paddle_ipu.cost_model.report.comparison_text import (
    HEAD,
    cells,
    layer_name,
    remarks,
    settings_rows,
    titles,
    unchanged,
)
from paddle_ipu.cost_model.report.differences import Differences
from paddle_ipu.cost_model.report.page import page_part, policy_digest
from paddle_ipu.notebook.html_table import html_table

_IN_NOTEBOOK = 10


def comparison_page(found: Differences) -> str:
    """One page without scripts that needs no other file and no network."""
    style = page_part("style.css")
    title = f"{found.before.source} and {found.after.source}"
    sections = "".join(_sections(found))
    lines = "".join(f"<p>{escape(line)}</p>\n" for line in titles(found))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src '{policy_digest(style)}'; img-src data:; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>{escape(title)}: compared</title>
<style>{style}</style>
</head>
<body>
<header><div><h1>{escape(title)}</h1>
{lines}<p><span class="badge">predicted, not measured</span></p></div></header>
<main>
{sections}</main>
</body>
</html>
"""


def comparison_tables(found: Differences) -> str:
    """The totals and the layers that changed most, as a notebook shows them."""
    totals = [(total.name, *cells(total)) for total in found.totals]
    caption = "\n".join([*titles(found), *remarks(found)])
    tables = [html_table(("", *HEAD), totals, caption)]
    for layers in found.layers:
        rows = [(layer_name(row.name), *cells(row)) for row in layers.changes[:_IN_NOTEBOOK]]
        if rows:
            tables.append(html_table(("layer", *HEAD), rows, f"layers by {layers.title}"))
    return "".join(tables)


def _sections(found: Differences) -> Iterator[str]:
    said = remarks(found)
    totals = [(total.name, *cells(total)) for total in found.totals]
    yield _section("Summary", [*said], ("", *HEAD), totals)
    settings = settings_rows(found)
    if settings:
        lead = ["Of the program, its strategy and the machine."]
        yield _section("What differs", lead, ("", "before", "after"), settings)
    for layers in found.layers:
        rows = [(layer_name(row.name), *cells(row)) for row in layers.changes]
        lead = [unchanged(layers)] if layers.unchanged else []
        yield _section(f"Layers by {layers.title}", lead, ("layer", *HEAD), rows)


def _section(
    name: str, lead: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    leads = "".join(f'<p class="lead">{escape(line)}</p>' for line in lead)
    return (
        f"<section><h2>{escape(name)}</h2>{leads}{_table(head, rows) if rows else ''}</section>\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is a name and whose others are numbers."""
    names = "".join(
        f'<th scope="col"{_number(at)}>{escape(name)}</th>' for at, name in enumerate(head)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{_number(at)}>{escape(cell)}</td>" for at, cell in enumerate(row))
        + "</tr>\n"
        for row in rows
    )  # fmt: skip
    return (
        f'<div class="scroll"><table><thead><tr>{names}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )


def _number(column: int) -> str:
    return ' class="n"' if column else ""
