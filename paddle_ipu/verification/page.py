"""A verification report as one HTML page: no other file, no network, tables to sort and filter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from paddle_ipu.verification import charts
from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.contents import AGREES, DIVERGES, ROUNDS, OperatorRow, ReportContents
from paddle_ipu.verification.ranges import ValueRange

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse; margin: .5em 0 2em }
th, td { padding: .2em .7em; text-align: left; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums }
th { cursor: pointer; background: #f3f3f3; position: sticky; top: 0 }
th[aria-sort=ascending]::after { content: " \\2191" }
th[aria-sort=descending]::after { content: " \\2193" }
tr.diverges { background: #ffd9d6 } tr.follows { background: #fff3cd }
tr.rounding { background: #eef4ff } tr.now { background: #e7f0ff }
pre { background: #f6f6f6; padding: 1em; white-space: pre-wrap }
.finding { border-left: 4px solid #c62828; background: #fdf3f2; padding: .6em 1em; margin: .6em 0 }
.lost { fill: #c62828 } .weak { fill: #ef9f1a } .held { fill: #3b7dd8 }
svg.h path { stroke: #ccc; fill: none }
polyline { fill: none; stroke: #3b7dd8; stroke-width: 2 }
figure { display: inline-block; margin: 0 1em 1em 0 } figcaption { color: #555 }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em }
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
const only = document.getElementById("only"), lost = document.getElementById("lost");
const choose = () => {
  for (const row of document.querySelectorAll("#operators tbody tr"))
    row.hidden = !row.textContent.toLowerCase().includes(only.value.toLowerCase())
      || (lost.checked && /agrees|rounding/.test(row.className) && !("lost" in row.dataset));
};
if (only) { only.addEventListener("input", choose); lost.addEventListener("input", choose); }
"""

_KEY = (
    '<p class="key">Histograms: magnitudes by power of two, from 2<sup>-40</sup> to 2<sup>24</sup>.'
    '<span style="background:#3b7dd8"></span>half holds them'
    '<span style="background:#ef9f1a"></span>with fewer bits'
    '<span style="background:#c62828"></span>not: they become 0 or infinity</p>'
)

_VERDICTS = (
    "agrees: within tolerance. rounding: beyond it, but right for what it reads, as is all before. "
    "diverges: wrong for what it reads. follows: behind one that diverges."
)

_NUMBERS = ("drift", "max abs", "of large", "magnitude", "differing", "got", "expected")
_RANGE = ("&gt; half", "to 0", "subnormal", "values")


def page(report: ReportContents) -> str:
    """The page; text from the program is escaped."""
    title = f"verify: {report.verdict}"
    body = [f"<h1>{title}</h1>", f"<p>{escape(report.headline())}.</p>"]
    body += [f"<p>Note: {escape(note)}.</p>" for note in report.notes]
    body += [
        f'<div class="finding">{escape(str(finding))}</div>'
        for finding in (*report.findings, *report.not_finite)
    ]
    if not report.ok or not report.finite:
        body.append(f"<pre>{escape(report.explanation())}</pre>")
    body += _history(report)
    if report.operators:
        body += _operators(report)
    if report.scales:
        body += _scales(report)
    if report.derivatives:
        columns = ("#", "verdict", "operator", "result", "layer", "line", "shape", *_NUMBERS)
        body.append("<h2>Derivatives of each operator by itself</h2>")
        body.append(_table("derivatives", columns, map(_derivative, report.derivatives)))
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


def _history(report: ReportContents) -> list[str]:
    if not report.history:
        return []
    rows = [
        _row("step", [
            _number(step, str(step)),
            _text("") if row.loss is None else _number(row.loss, f"{row.loss:.5g}"),
            *(_number(x, f"{x:.4g}") for x in (row.gradient, row.weights, row.update)),
        ])
        for step, row in enumerate(report.history)
    ]  # fmt: skip
    head = ("step", "loss", "norm of gradients", "norm of weights", "update / weights")
    return [
        "<h2>Steps, on the IPU</h2>",
        charts.curve([row.loss for row in report.history], "loss")
        + charts.curve([row.gradient for row in report.history], "norm of gradients"),
        _table("steps", head, rows),
    ]


def _operators(report: ReportContents) -> list[str]:
    gradients = any(row.gradient_values is not None for row in report.operators)
    head = ["#", "verdict", "operator", "result", "layer", "line", "shape", *_NUMBERS, "gain"]
    head += [
        *_RANGE,
        *(("gradient drift", *(f"gradient {x}" for x in _RANGE)) if gradients else ()),
    ]
    scaled = f", gradients times the loss scale {report.loss_scale:g}" if gradients else ""
    return [
        "<h2>Operators</h2>",
        f"<p>{_VERDICTS}</p>",
        f"<p>Ranges are those of {escape(report.other)}{scaled}: what half would make of them.</p>",
        _KEY,
        '<p><input id="only" placeholder="operator, result or line"> <label><input type="checkbox" '
        'id="lost"> only what differs or does not fit half</label></p>',
        _table("operators", head, (_operator(row, gradients) for row in report.operators)),
    ]


def _scales(report: ReportContents) -> list[str]:
    rows = [
        _row("now" if row.scale == report.loss_scale else "scale", [
            _number(row.scale, f"{row.scale:g}"),
            *(_number(x, f"{x:.2%}") for x in (row.overflow, row.underflow, row.subnormal)),
        ])
        for row in report.scales
    ]  # fmt: skip
    head = ("loss scale", "&gt; half", "to 0", "subnormal")
    return [
        "<h2>What loss scales do to gradients in half</h2>",
        "<p>Shares of the gradient values that are not 0.</p>",
        _table("scales", head, rows),
    ]


def _table(name: str, head: Sequence[str], rows: Iterable[str]) -> str:
    heads = "".join(f"<th>{text}</th>" for text in head)
    return (
        f'<table id="{name.replace(" ", "-")}"><thead><tr>{heads}</tr></thead><tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table>"
    )


def _operator(row: OperatorRow, gradients: bool) -> str:
    cells = [
        *_result(row),
        _number(row.gain, f"{row.gain:.1f}" if row.gain else ""),
        *_range(row.values),
    ]
    if gradients:
        drift = row.gradient
        cells.append(_text("") if drift is None else _number(drift.drift, f"{drift.drift:.2e}"))
        cells += _range(row.gradient_values)
    ranges = [values for values in (row.values, row.gradient_values) if values is not None]
    lost = any(not x.finite or x.overflow or x.underflow for x in ranges)
    return _row(row.verdict, cells, " data-lost" if lost else "")


def _range(values: ValueRange | None) -> list[str]:
    if values is None:
        return [_text("")] * len(_RANGE)
    counts = (values.overflow, values.underflow, values.subnormal)
    return [
        *(_number(values.share(n), f"{values.share(n):.2%}" if n else "") for n in counts),
        f'<td data-sort="{values.largest}">{charts.histogram(values)}</td>',
    ]


def _derivative(row: OperatorRow) -> str:
    return _row(row.verdict, _result(row))


def _result(row: OperatorRow) -> list[str]:
    return [
        _number(row.number, str(row.number)),
        *map(_text, (row.verdict, row.operator, row.result.name, row.layer, row.source)),
        *_measures(row.result),
    ]


def _comparison(row: Comparison) -> str:
    verdict = (ROUNDS if row.rounding else AGREES) if row.ok else DIVERGES
    cells = [_text(verdict), _text(row.name), _text(row.what), _text(row.source)]
    return _row(verdict, [*cells, *_measures(row)])


def _measures(row: Comparison) -> list[str]:
    return [
        _text(f"{list(row.shape)} {row.dtype}"),
        *(_number(x, f"{x:.2e}") for x in (row.drift, row.max_abs, row.share, row.magnitude)),
        _number(row.differing, f"{row.differing} of {row.size}"),
        *(_number(x, f"{x:.7g}") for x in (row.got, row.expected)),
    ]


def _row(verdict: str, cells: Sequence[str], attributes: str = "") -> str:
    return f'<tr class="{verdict}"{attributes}>{"".join(cells)}</tr>'


def _text(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _number(value: float, text: str) -> str:
    # JavaScript's Number() reads "Infinity", not "inf".
    key = str(value).replace("inf", "Infinity")
    return f'<td class="n" data-sort="{key}">{text}</td>'
