"""A verification report as one HTML page: no other file, no network, tables that sort."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from paddle_ipu.verification.report import Comparison, OperatorRow, VerificationReport

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse; margin: .5em 0 2em }
th, td { padding: .2em .7em; text-align: left; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums }
th { cursor: pointer; background: #f3f3f3; position: sticky; top: 0 }
th[aria-sort=ascending]::after { content: " \\2191" }
th[aria-sort=descending]::after { content: " \\2193" }
tr.diverges { background: #ffd9d6 } tr.follows { background: #fff3cd }
pre { background: #f6f6f6; padding: 1em; white-space: pre-wrap }
"""

_SCRIPT = """
for (const head of document.querySelectorAll("th")) head.addEventListener("click", () => {
  const table = head.closest("table"), column = head.cellIndex;
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = row => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const x = key(a), y = key(b), n = Number(x) - Number(y);
    return (Number.isNaN(n) ? x.localeCompare(y) : n) * (up ? 1 : -1);
  });
  table.tBodies[0].append(...rows);
});
const only = document.getElementById("only");
if (only) only.addEventListener("input", () => {
  for (const row of document.querySelectorAll("#operators tbody tr"))
    row.hidden = !row.textContent.toLowerCase().includes(only.value.toLowerCase());
});
"""

_NUMBERS = ("max abs", "max rel", "magnitude", "differing", "got", "expected")


def page(report: VerificationReport) -> str:
    """The page; text from the program is escaped."""
    title = f"verify: {'agrees' if report.ok else 'differs'}"
    body = [f"<h1>{title}</h1>", f"<p>rtol={report.rtol:g}, atol={report.atol:g}, "
            f"{report.steps} step(s) beside Paddle's CPU kernels.</p>"]  # fmt: skip
    body += [f"<p>Note: {escape(note)}.</p>" for note in report.notes]
    if not report.ok:
        body.append(f"<pre>{escape(report.explanation())}</pre>")
    operator_head = ("#", "verdict", "operator", "result", "line", "shape", *_NUMBERS)
    if report.operators:
        body.append("<h2>Operators</h2>")
        body.append('<p><input id="only" placeholder="operator, result or line"></p>')
        body.append(_table("operators", operator_head, map(_operator, report.operators)))
    if report.derivatives:
        body.append("<h2>Derivatives of each operator by itself</h2>")
        body.append(_table("derivatives", operator_head, map(_operator, report.derivatives)))
    for name, rows in (
        ("Fetches", report.fetches),
        ("Gradients", report.gradients),
        ("Weights and states", report.updates),
    ):
        if rows:
            head = ("verdict", "name", "what", "line", "shape", *_NUMBERS)
            body += [f"<h2>{name}</h2>", _table(name.lower(), head, map(_comparison, rows))]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>{_SCRIPT}</script></body></html>\n"
    )


def _table(name: str, head: Sequence[str], rows: Iterable[str]) -> str:
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    return (
        f'<table id="{name.replace(" ", "-")}"><thead><tr>{heads}</tr></thead><tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table>"
    )


def _operator(row: OperatorRow) -> str:
    cells = [_number(row.number, str(row.number)), _text(row.verdict), _text(row.operator)]
    cells += [_text(row.result.name), _text(row.source), *_measures(row.result)]
    return _row(row.verdict, cells)


def _comparison(row: Comparison) -> str:
    verdict = "agrees" if row.ok else "diverges"
    cells = [_text(verdict), _text(row.name), _text(row.what), _text(row.source)]
    return _row(verdict, [*cells, *_measures(row)])


def _measures(row: Comparison) -> list[str]:
    return [
        _text(f"{list(row.shape)} {row.dtype}"),
        *(_number(x, f"{x:.2e}") for x in (row.max_abs, row.max_rel, row.magnitude)),
        _number(row.differing, f"{row.differing} of {row.size}"),
        *(_number(x, f"{x:.7g}") for x in (row.got, row.expected)),
    ]


def _row(verdict: str, cells: Sequence[str]) -> str:
    return f'<tr class="{verdict}">{"".join(cells)}</tr>'


def _text(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _number(value: float, text: str) -> str:
    # JavaScript's Number() reads "Infinity", not "inf".
    key = str(value).replace("inf", "Infinity")
    return f'<td class="n" data-sort="{key}">{text}</td>'
