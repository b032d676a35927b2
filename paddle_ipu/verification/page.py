"""A verification report as one HTML page: each finding once, tables to sort and search."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from html import escape

from paddle_ipu.pages.document import Section, document, page_part
from paddle_ipu.pages.layer_graph import graph_scripts, graph_style
from paddle_ipu.pages.table import Column, number_cell, row, table, text_cell
from paddle_ipu.verification import charts
from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.contents import AGREES, DIVERGES, ROUNDS, OperatorRow, ReportContents
from paddle_ipu.verification.layer_graph import graph_data
from paddle_ipu.verification.ranges import ValueRange

_HISTOGRAMS = (
    "<p>Histograms: magnitudes by power of two, from 2<sup>-40</sup> to 2<sup>24</sup>.</p>\n"
    '<ul class="key"><li><i class="held"></i>half holds them</li>'
    '<li><i class="weak"></i>with fewer bits</li>'
    '<li><i class="lost"></i>not: they become 0 or infinity</li></ul>\n'
)

_VERDICTS = (
    "agrees: within tolerance. rounding: beyond it, but right for what it reads, as is all before. "
    "diverges: wrong for what it reads. follows: behind one that diverges."
)

_LAYERS = Section(
    "layers",
    "Layers",
    "How far operators drift, by layer: a folded layer has the largest drift in it. Bars mark "
    "operators with findings, and the layers they are in. Lines are what operators hand to each "
    "other, thick ones many bytes. A click or Enter unfolds a layer, arrow keys go through them; "
    "+ and - zoom, as does the wheel with Ctrl.",
    body="<noscript><p>Scripts draw the graph; the table of operators has its numbers.</p>"
    "</noscript>",
)

_DIFFERENCE, _RANGE_GROUP, _GRADIENT = "difference", "range", "gradient"
"""Groups of columns of the table of operators, which is too wide for all of them at once."""
_NUMBERS = ("drift", "max abs", "of large", "magnitude", "differing", "got", "expected")
_RANGE = ("> half", "to 0", "subnormal", "values")


def page(report: ReportContents) -> str:
    """The page; text from the program is escaped."""
    graph = graph_data(report)
    sections = [Section("summary", "Summary", body=_summary(report))]
    for section in _Tables(report).sections():
        if section.key == "operators" and graph is not None:
            sections.append(_LAYERS)
        sections.append(section)
    return document(
        f"verify: {report.verdict}",
        about="paddle_ipu",
        lines=[f"{escape(report.headline())}.", *(f"Note: {escape(x)}." for x in report.notes)],
        sections=sections,
        styles=[*([] if graph is None else [graph_style()]), _part("verify.css")],
        scripts=[
            *([] if graph is None else [*graph_scripts(), _part("drift.js")]),
            _part("verify.js"),
        ],
        data=graph,
        footer=f"Written by paddle_ipu. The program beside {escape(report.other)}.",
    )


def _part(name: str) -> str:
    return page_part("paddle_ipu.verification", f"page_parts/{name}")


def _summary(report: ReportContents) -> str:
    """How much of what differs, and each finding once."""
    tiles = []
    for name, rows in report.sections():
        if not rows:
            continue
        differ = sum(not x.ok for x in rows)
        lost = sum(x.not_finite > 0 for x in rows)
        share, kind = (f"{differ} of {len(rows)}", "bad") if differ else (f"{len(rows)}", "good")
        said = f"{name} {'differ' if differ else 'agree'}"
        said += f", {lost} hold NaN or infinity" if lost else ""
        kind = "bad" if lost else kind
        tiles.append(
            f'<a class="tile {kind}" href="#{_key(name)}"><b>{share}</b><span>{said}</span></a>'
        )
    findings = [
        f"<b>{escape(found.title)}</b>: {escape(found.text)} {escape(found.advice)}"
        for found in report.findings
    ]
    findings += [escape(str(found)) for found in report.not_finite]
    beginning = report.beginning()
    if beginning is not None:
        findings.append(" ".join(map(escape, beginning)))
    said = "".join(f'<div class="finding">{text}</div>\n' for text in findings)
    return f'<div class="tiles">{"".join(tiles)}</div>\n{said}'


def _key(name: str) -> str:
    """The id of the section of that name."""
    return name.lower().replace(" ", "-")


def _numbers(names: Sequence[str], group: str = "") -> Iterator[Column]:
    return (Column(name, number=True, group=group) for name in names)


class _Tables:
    """The sections with tables; lines of the program are shown from their common folder on."""

    def __init__(self, report: ReportContents) -> None:
        self.report = report
        operators = (*report.operators, *report.derivatives)
        folders = {os.path.dirname(x.source) for x in operators if x.source}
        absolute = folders and all(map(os.path.isabs, folders))
        self._folder = os.path.join(os.path.commonpath(folders), "") if absolute else ""

    def sections(self) -> Iterator[Section]:
        """Those that have rows."""
        report = self.report
        if report.history:
            yield self._history()
        if report.operators:
            yield self._operators()
        if report.scales:
            yield self._scales()
        if report.derivatives:
            columns = [*self._of_result(), *_numbers(_NUMBERS)]
            rows = (row(self._result(x), kind=x.verdict) for x in report.derivatives)
            yield Section(
                "derivatives", "Derivatives", "Derivatives of each operator by itself.",
                body=table(columns, rows, key="derivatives-table"),
            )  # fmt: skip
        for name, compared in report.sections():
            if compared:
                columns = [*map(Column, ("verdict", "name", "what", "line", "shape"))]
                yield Section(
                    _key(name), name.capitalize(),
                    body=table([*columns, *_numbers(_NUMBERS)], map(self._comparison, compared),
                               key=f"{_key(name)}-table"),
                )  # fmt: skip

    def _history(self) -> Section:
        history = self.report.history
        rows = [
            row([
                number_cell(step, str(step)),
                number_cell(x.loss, "" if x.loss is None else f"{x.loss:.5g}"),
                *(number_cell(y, f"{y:.4g}") for y in (x.gradient, x.weights, x.update)),
            ])
            for step, x in enumerate(history)
        ]  # fmt: skip
        head = ("step", "loss", "norm of gradients", "norm of weights", "update / weights")
        curves = charts.curve([x.loss for x in history], "loss")
        curves += charts.curve([x.gradient for x in history], "norm of gradients")
        body = curves + table([*_numbers(head)], rows, key="steps-table")
        return Section("steps", "Steps, on the IPU", body=body)

    def _operators(self) -> Section:
        report = self.report
        gradients = any(x.gradient_values is not None for x in report.operators)
        columns = [
            *self._of_result(_DIFFERENCE),
            *_numbers((*_NUMBERS, "gain"), _DIFFERENCE),
            *_numbers(_RANGE, _RANGE_GROUP),
        ]
        if gradients:
            names = ("gradient drift", *(f"gradient {name}" for name in _RANGE))
            columns += _numbers(names, _GRADIENT)
        scaled = f", gradients times the loss scale {report.loss_scale:g}" if gradients else ""
        of = f"Ranges are those of {escape(report.other)}{scaled}: what half would make of them."
        rows = (self._operator(x, gradients) for x in report.operators)
        body = f"<p>{of}</p>\n{_HISTOGRAMS}" + table(columns, rows, key="operators-table")
        return Section("operators", "Operators", _VERDICTS, body=body)

    def _scales(self) -> Section:
        report = self.report
        rows = (
            row([
                number_cell(x.scale, f"{x.scale:g}"),
                *(number_cell(y, f"{y:.2%}") for y in (x.overflow, x.underflow, x.subnormal)),
            ], kind="now" if x.scale == report.loss_scale else "")
            for x in report.scales
        )  # fmt: skip
        return Section(
            "scales", "Loss scales",
            "What loss scales do to gradients in half: shares of the gradient values that are "
            "not 0.",
            body=table([*_numbers(("loss scale", *_RANGE[:3]))], rows, key="scales-table"),
        )  # fmt: skip

    @staticmethod
    def _of_result(group: str = "") -> list[Column]:
        """Columns of what an operator and its result are."""
        first = [Column("#", number=True), *map(Column, ("verdict", "operator", "result"))]
        return [*first, Column("layer"), Column("line"), Column("shape", group=group)]

    def _operator(self, operator: OperatorRow, gradients: bool) -> str:
        cells = [
            *self._result(operator),
            number_cell(operator.gain, f"{operator.gain:.1f}" if operator.gain else ""),
            *_range(operator.values),
        ]
        if gradients:
            drift = operator.gradient
            cells.append(
                number_cell(None, "") if drift is None
                else number_cell(drift.drift, f"{drift.drift:.2e}")
            )  # fmt: skip
            cells += _range(operator.gradient_values)
        ranges = [x for x in (operator.values, operator.gradient_values) if x is not None]
        lost = any(not x.finite or x.overflow or x.underflow for x in ranges)
        return row(cells, kind=operator.verdict, attributes=" data-lost" if lost else "")

    def _result(self, operator: OperatorRow) -> list[str]:
        return [
            number_cell(operator.number, str(operator.number)),
            text_cell(operator.verdict),
            text_cell(operator.operator),
            text_cell(operator.result.name, kind="name"),
            text_cell(operator.layer, kind="name"),
            self._line(operator.source),
            *_measures(operator.result),
        ]

    def _comparison(self, compared: Comparison) -> str:
        verdict = (ROUNDS if compared.rounding else AGREES) if compared.ok else DIVERGES
        cells = [
            text_cell(verdict),
            text_cell(compared.name, kind="name"),
            text_cell(compared.what),
            self._line(compared.source),
            *_measures(compared),
        ]
        return row(cells, kind=verdict)

    def _line(self, source: str) -> str:
        return text_cell(
            source.replace(self._folder, "") if self._folder else source, title=source, kind="line"
        )


def _measures(result: Comparison) -> list[str]:
    numbers = (result.drift, result.max_abs, result.share, result.magnitude)
    return [
        text_cell(f"{list(result.shape)} {result.dtype}"),
        *(number_cell(x, f"{x:.2e}") for x in numbers),
        number_cell(result.differing, f"{result.differing} of {result.size}"),
        *(number_cell(x, f"{x:.7g}") for x in (result.got, result.expected)),
    ]


def _range(values: ValueRange | None) -> list[str]:
    if values is None:
        return [text_cell("")] * len(_RANGE)
    counts = (values.overflow, values.underflow, values.subnormal)
    return [
        *(number_cell(values.share(n), f"{values.share(n):.2%}" if n else "") for n in counts),
        f'<td data-sort="{values.largest}">{charts.histogram(values)}</td>',
    ]
