"""What the page's graph by layer draws: operators with their drift and marks, and what flows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

from paddle_ipu.verification.contents import DIVERGES, FOLLOWS, ROUNDS, OperatorRow, ReportContents

_DERIVATIVE, _NOT_FINITE = "derivative diverges", "not finite"
_FIRST = {"NaN": "first NaN", "infinity": "first infinity"}
MARKS = (*_FIRST.values(), DIVERGES, _DERIVATIVE, _NOT_FINITE, FOLLOWS, ROUNDS)
"""What an operator is marked with, what matters most first."""
CAUSES = MARKS[: MARKS.index(_NOT_FINITE)]
"""Marks of operators that are wrong by themselves; the others have it from what they read."""

OPERATOR_COLUMNS = ("number", "operator", "layer", "result", "drift", "gradient", "mark")


def graph_data(report: ReportContents) -> dict[str, Any] | None:
    """What the page carries for the graph; None where there is none to draw.

    There is none without flows, nor where no operator is in a layer. Of an operator with several
    results the one that drifts most is told. A drift is a number, ``"Infinity"``, or None where it
    is not known; ``mark`` is a place in ``marks``, None without one. The flows' ``source`` and
    ``target`` are places in the rows of ``operators``.
    """
    if not report.flows or not any(row.layer for row in report.operators):
        return None
    derivatives = {row.number for row in report.derivatives if row.verdict == DIVERGES}
    rows = []
    for number, of_one in groupby(report.operators, key=lambda row: row.number):
        results = list(of_one)
        worst = max(results, key=lambda row: row.result.drift)
        gradients = [row.gradient.drift for row in results if row.gradient is not None]
        found = {_FIRST[x.kind] for x in report.not_finite if x.number == number}
        found |= {_DERIVATIVE} if number in derivatives else set()
        mark = _most({*found, *_of_results(results, report.finite)})
        rows.append([
            number, worst.operator, worst.layer, worst.result.name, _number(worst.result.drift),
            _number(max(gradients)) if gradients else None, mark,
        ])  # fmt: skip
    places = {row[0]: place for place, row in enumerate(rows)}
    return {
        "operators": {"columns": list(OPERATOR_COLUMNS), "rows": rows},
        "flows": [[places[source], places[target], size] for source, target, size in report.flows],
        "marks": list(MARKS),
        "causes": len(CAUSES),
        "tolerance": report.rtol if report.against == "cpu" else report.max_drift,
    }


def _of_results(results: Sequence[OperatorRow], finite: bool) -> set[str]:
    """What an operator is marked with for its results.

    Where all that ends in a fetch, gradient or weight is `finite`, an infinity is meant, such as
    that of a mask.
    """
    lost = not finite and any(row.result.not_finite for row in results)
    return {row.verdict for row in results} | ({_NOT_FINITE} if lost else set())


def _most(found: Collection[str]) -> int | None:
    """The place in `MARKS` of the one that matters most; None without one."""
    return next((place for place, mark in enumerate(MARKS) if mark in found), None)


def _number(drift: float) -> float | str:
    """A drift as JSON has it; three digits are shown at most."""
    return "Infinity" if math.isinf(drift) else float(f"{drift:.3g}")
