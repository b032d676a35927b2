"""A comparison of two reports as HTML: a page in the report's look, and tables for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from paddle_ipu.cost_model.report.differences import Change, Differences
from paddle_ipu.notebook.html_table import html_table
from paddle_ipu.pages.document import Section, document
from paddle_ipu.pages.table import Column, number_cell, row, table, text_cell

_IN_NOTEBOOK = 10


def comparison_page(found: Differences) -> str:
    """One page that needs no other file and no network."""
    return document(
        f"{found.before.source} and {found.after.source}",
        about="compared",
        lines=[
            *map(escape, titles(found)),
            '<span class="badge">predicted, not measured</span>',
        ],
        sections=list(_sections(found)),
        footer="Written by paddle_ipu from two reports.",
    )


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


def _sections(found: Differences) -> Iterator[Section]:
    yield _section("summary", "Summary", remarks(found), _changes("total", found.totals))
    settings = settings_rows(found)
    if settings:
        lead = ["Of the program, its strategy and the machine."]
        columns = [Column("setting"), Column("before", number=True), Column("after", number=True)]
        rows = (
            row([text_cell(name), text_cell(before, kind="n"), text_cell(after, kind="n")])
            for name, before, after in settings
        )
        yield _section("settings", "What differs", lead, table(columns, rows))
    for layers in found.layers:
        lead = [unchanged(layers)] if layers.unchanged else []
        body = _changes("layer", layers.changes)
        yield _section(layers.key, f"Layers by {layers.title}", lead, body)


def _section(key: str, name: str, lead: Iterable[str], body: str) -> Section:
    leads = "".join(f'<p class="lead">{escape(line)}</p>' for line in lead)
    return Section(key, escape(name), body=leads + body)


def _changes(what: str, changes: Sequence[Change]) -> str:
    """A table of totals or layers with what they were, are, and the change; "" without any."""
    if not changes:
        return ""
    columns = [Column(what), *(Column(name, number=True) for name in (*HEAD[:-1], "share"))]
    return table(columns, map(_change, changes))


def _change(change: Change) -> str:
    share = change.amount / change.before if change.before else None
    values = (change.before, change.after, change.amount, share)
    return row([
        text_cell(layer_name(change.name)),
        *(number_cell(value, text) for value, text in zip(values, cells(change), strict=True)),
    ])  # fmt: skip
