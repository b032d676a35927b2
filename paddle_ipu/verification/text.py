"""A verification report as text, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.contents import (
    AGREES,
    DIVERGES,
    FOLLOWS,
    ROUNDS,
    OperatorRow,
    ReportContents,
)
from paddle_ipu.verification.ranges import ValueRange

_HEADER = f"  {'':8} {'drift':>8} {'max abs':>8} {'of large':>8} {'largest':>8}"
_IN_HALF = f" {'> half':>7} {'to 0':>7} {'subnorm':>7}"
_GRADIENT = f" | {'drift':>8}{_IN_HALF}"
_NOT_FINITE, _DIFFERS, _OK = "NaN/inf", "DIFFERS", "ok"
_MORE = {
    _NOT_FINITE: "hold NaN or infinity",
    _DIFFERS: "differ",
    DIVERGES: "diverge",
    FOLLOWS: "follow",
    ROUNDS: "differ by rounding",
    AGREES: "agree",
    _OK: "agree",
}


def text(report: ReportContents, most: int | None) -> str:
    """The report with all rows of each section, or the `most` that matter."""
    lines = [f"verify: {report.headline()}"]
    lines += [f"note: {note}" for note in report.notes]
    if report.history:
        lines += ["", *_history(report)]
    for title, rows in report.sections():
        if rows:
            shown = rows if most is None else _worst(rows, most)
            left_out = _left_out(map(_verdict, rows), map(_verdict, shown))
            lines += ["", f"{title}{left_out}:", f"{_HEADER}  name"]
            lines += [f"{_line(_verdict(r), r)}  {r.name}  {r.what}" for r in shown]
    if report.operators:
        lines += ["", *_operators(report, most)]
    if report.derivatives:
        lines += ["", "derivatives of each operator by itself:", f"{_HEADER}  operand"]
        lines += [
            f"{_line(row.verdict, row.result)}  {row.result.name}  {row.place()}"
            for row in report.derivatives
        ]
    if report.scales:
        lines += ["", *_scales(report)]
    if not report.ok or not report.finite:
        lines += ["", report.explanation()]
    elif report.findings:
        lines += ["", *map(str, report.findings)]
    return "\n".join(lines)


def brief(report: ReportContents) -> str:
    """A report that all is well: the verdict, what was compared, the notes and findings."""
    sections = [(name, rows) for name, rows in report.sections() if rows]
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in sections)
    lines = [f"verify: {report.headline()}"]
    if sections:
        most = max((row for _, rows in sections for row in rows), key=lambda row: row.drift)
        # Where a tensor is 0 but for rounding, as the gradient of a bias before a batch norm, the
        # drift is large and means nothing: its size tells.
        lines.append(
            f"compared: {counts}; the largest drift is {most.drift:.1e}, in "
            f"{most.called}, whose largest value is {most.magnitude:.1e}"
        )
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join([*lines, *map(str, report.findings)])


def _history(report: ReportContents) -> list[str]:
    lines = ["steps, on the IPU:", f"  {'step':>4} {'loss':>11} {'|gradient|':>11} "
             f"{'|weights|':>11} {'update':>9}"]  # fmt: skip
    for step, row in enumerate(report.history):
        loss = "" if row.loss is None else f"{row.loss:.5g}"
        lines.append(
            f"  {step:4} {loss:>11} {row.gradient:11.4g} {row.weights:11.4g} {row.update:9.2g}"
        )
    return lines


def _operators(report: ReportContents, most: int | None) -> list[str]:
    rows = report.operators if most is None else notable(report.operators, most)
    ranges = any(row.values is not None for row in rows)
    gradients = any(row.gradient_values is not None for row in rows)
    head = _HEADER + (_IN_HALF if ranges else "") + (_GRADIENT if gradients else "")
    left_out = _left_out((x.verdict for x in report.operators), (x.verdict for x in rows))
    lines = [f"operators, in program order{left_out}:"]
    if gradients:
        lines.append(f"{'':{len(head) - len(_GRADIENT)}} | gradient")
    lines.append(f"{head}  result")
    for row in rows:
        line = _line(row.verdict, row.result)
        if ranges:
            line += _shares(row.values)
        if gradients:
            drift = "" if row.gradient is None else f"{row.gradient.drift:8.1e}"
            line += f" | {drift:8}{_shares(row.gradient_values)}"
        lines.append(f"{line}  {row.result.name}  {row.place()}")
    return lines


def _left_out(verdicts: Iterable[str], shown: Iterable[str]) -> str:
    """How many rows are not shown, by verdict."""
    counts = Counter(verdicts)
    counts.subtract(shown)
    parts = [
        f"{counts[verdict]} more {words}" for verdict, words in _MORE.items() if counts[verdict]
    ]
    return f" ({', '.join(parts)})" if parts else ""


def notable(rows: Sequence[OperatorRow], most: int) -> list[OperatorRow]:
    """The operators that differ, hold what half cannot, or drift most; in program order.

    The first one that diverges is always among them.
    """
    first = next((row for row in rows if row.verdict == DIVERGES), None)

    def weight(row: OperatorRow) -> tuple[bool, bool, bool, bool, float]:
        lost = sum(
            values.overflow + values.nan + values.infinite
            for values in (row.values, row.gradient_values)
            if values is not None
        )
        return (
            row is first,
            bool(row.result.not_finite or lost),
            row.verdict == DIVERGES,
            row.verdict not in (AGREES, ROUNDS),
            row.result.drift,
        )

    shown = sorted(rows, key=weight, reverse=True)[: max(most, 1)]
    return sorted(shown, key=lambda row: row.number)


def _worst(rows: Sequence[Comparison], most: int) -> list[Comparison]:
    """The rows that hold NaN or infinity, differ, or drift most; in their order."""

    def weight(at: int) -> tuple[bool, bool, float]:
        return bool(rows[at].not_finite), not rows[at].ok, rows[at].drift

    shown = sorted(range(len(rows)), key=weight, reverse=True)[: max(most, 1)]
    return [rows[at] for at in sorted(shown)]


def _verdict(row: Comparison) -> str:
    if row.not_finite:
        return _NOT_FINITE
    if row.rounding:
        return ROUNDS
    return _OK if row.ok else _DIFFERS


def _line(verdict: str, row: Comparison) -> str:
    return (
        f"  {verdict:8} {row.drift:8.1e} {row.max_abs:8.1e} {row.share:8.1e} {row.magnitude:8.1e}"
    )


def _shares(values: ValueRange | None) -> str:
    if values is None:
        return " " * len(_IN_HALF)
    counts = (values.overflow, values.underflow, values.subnormal)
    return "".join(f" {f'{values.share(n):.1%}' if n else '':>7}" for n in counts)


def _scales(report: ReportContents) -> list[str]:
    lines = [
        "what loss scales do to gradients in half (shares of their values that are not 0):",
        f"  {'scale':>10} {'> half':>7} {'to 0':>7} {'subnorm':>7}",
    ]
    for row in report.scales:
        now = "  now" if row.scale == report.loss_scale else ""
        lines.append(
            f"  {row.scale:10g} {row.overflow:7.1%} {row.underflow:7.1%} {row.subnormal:7.1%}{now}"
        )
    return lines
