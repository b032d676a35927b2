"""Fits the predictor's constants to published rates, and predicts each rate without having seen it.

    python -m benchmarks.fit                  fitted to the rows of benchmarks.published
    python -m benchmarks.fit --rows 1 8 10    to these; the others are predicted only

Fitted are the constants that the predictor's table calls so, each within the range that is believed
of it, to the errors' logarithms with Huber's loss. A constant that no row hangs on keeps its value.
A row is left out together with the others of the same published figure; rows of an older SDK are
predicted only. Nothing is changed: values
that are better go into ``paddle_ipu/cost_model/constants.py`` by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import log, sqrt
from statistics import mean, median

import paddle
from scipy.optimize import least_squares

import paddle_ipu
from benchmarks.published import ROWS, Row, kept_strategies, program_of
from paddle_ipu.cost_model.constants import CONSTANTS, TABLE, Constants, Provenance
from paddle_ipu.cost_model.cycles import predict_cycles
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing

ROBUST = 0.05
"""From which relative error on a row pulls with its size only, not with its square."""
MATTERS = 0.03
"""By how much a constant's range must move a rate for the rate to say anything of it."""


@dataclass(frozen=True)
class Observation:
    """A published rate, and the rate that given constants predict for it.

    Attributes:
        figure: what was published; rows that have it in common are left out together.
    """

    name: str
    figure: str
    published: float
    rate: Callable[[Constants], float]

    def error(self, constants: Constants) -> float:
        """The predicted rate over the published one, less 1."""
        return self.rate(constants) / self.published - 1.0


@dataclass(frozen=True)
class Fit:
    """Fitted constants.

    Attributes:
        names: of those that the observations determine; the others are as they were.
    """

    constants: Constants
    names: tuple[str, ...]


def fit(
    observations: Sequence[Observation],
    start: Constants = CONSTANTS,
    beliefs: Mapping[str, Provenance] = TABLE,
) -> Fit:
    """The constants that predict the observations best; a figure of several rows weighs as one.

    Args:
        beliefs: of each constant; those of kind ``fitted`` are, between their ends.
    """
    names = tuple(
        name
        for name, belief in beliefs.items()
        if belief.kind == "fitted" and _reach(observations, name, start, belief) >= MATTERS
    )
    if not names:
        return Fit(start, ())
    figures = [seen.figure for seen in observations]
    weights = [1.0 / sqrt(figures.count(figure)) for figure in figures]

    def residuals(factors: Sequence[float]) -> list[float]:
        constants = _times(start, dict(zip(names, factors, strict=True)))
        return [
            weight * log(seen.rate(constants) / seen.published)
            for seen, weight in zip(observations, weights, strict=True)
        ]

    ends = [[getattr(beliefs[name], end) for name in names] for end in ("low", "high")]
    found = least_squares(
        residuals, [1.0] * len(names), bounds=ends, loss="huber", f_scale=ROBUST,
        diff_step=1e-3, xtol=1e-4,
    )  # fmt: skip
    return Fit(_times(start, dict(zip(names, map(float, found.x), strict=True))), names)


def left_out(
    observations: Sequence[Observation],
    start: Constants = CONSTANTS,
    beliefs: Mapping[str, Provenance] = TABLE,
) -> list[float | None]:
    """Each observation's error by the constants that the other figures give.

    None where no other figure determines a constant that this one does: the value that it keeps was
    fitted to this one.
    """
    everything = fit(observations, start, beliefs).names
    without: dict[str, Fit] = {}
    for figure in {seen.figure for seen in observations}:
        without[figure] = fit([s for s in observations if s.figure != figure], start, beliefs)
    errors: list[float | None] = []
    for seen in observations:
        found = without[seen.figure]
        errors.append(seen.error(found.constants) if found.names == everything else None)
    return errors


def _reach(
    observations: Sequence[Observation], name: str, start: Constants, belief: Provenance
) -> float:
    """By how much the range of a constant moves the rate that hangs on it most."""
    low, high = (_times(start, {name: factor}) for factor in (belief.low, belief.high))
    return max((abs(log(s.rate(high) / s.rate(low))) for s in observations), default=0.0)


def _times(constants: Constants, factors: Mapping[str, float]) -> Constants:
    changed = {name: getattr(constants, name) * factor for name, factor in factors.items()}
    return replace(constants, **changed)


def observed(rows: Sequence[Row]) -> list[Observation]:
    """The published rows, their programs built once; a rate is predicted once for each constants.

    Needs static mode.
    """
    kept = kept_strategies()
    found = []
    for row in rows:
        name = f"{row.name}, {row.machine}"
        rate = _predictor(row, kept)
        found.append(Observation(name, f"{name}, {row.source}", row.published, rate))
    return found


def _predictor(row: Row, kept: Mapping[str, object]) -> Callable[[Constants], float]:
    program, machine = program_of(row, dict(kept)), machine_named(row.machine)
    lives = livenesses(program)

    @cache
    def rate(constants: Constants) -> float:
        pricing = Pricing(machine.processor, constants)
        return predict_cycles(program, machine, pricing, lives).throughput * row.packed

    return rate


def text(
    observations: Sequence[Observation],
    chosen: Sequence[int],
    start: Constants = CONSTANTS,
    beliefs: Mapping[str, Provenance] = TABLE,
) -> str:
    """What the command prints.

    Args:
        chosen: positions of the observations that are fitted to; a row that is not among them is
            predicted by the constants fitted to them.
    """
    members = [observations[at] for at in chosen]
    found = fit(members, start, beliefs)
    errors = dict(zip(chosen, left_out(members, start, beliefs), strict=True))
    figures = len({seen.figure for seen in members})
    lines = [
        f"fitted to {len(members)} rows of {figures} published figures",
        "",
        f"{'constant':<22} {'table':>9} {'fitted':>9}  between",
    ]
    for name, belief in beliefs.items():
        if belief.kind != "fitted":
            continue
        value = getattr(start, name)
        now = f"{getattr(found.constants, name):>9.4g}" if name in found.names else f"{'held':>9}"
        ends = f"{value * belief.low:.4g} and {value * belief.high:.4g}"
        note = "" if name in found.names else "; no rate of these rows hangs on it"
        lines.append(f"{name:<22} {value:>9.4g} {now}  {ends}{note}")
    lines += ["", f"{'':<40} {'published':>9} {'table':>8} {'fitted':>8} {'left out':>9}"]
    columns: list[list[float]] = [[], [], []]
    for at, seen in enumerate(observations):
        fitted = seen.error(found.constants)
        without = errors.get(at, fitted)
        row: tuple[float | None, ...] = (seen.error(start), fitted, without)
        for column, error in zip(columns, row, strict=True):
            if error is not None:
                column.append(error)
        shown = f"{row[0]:>+8.1%} {row[1]:>+8.1%} "
        shown += f"{'-':>9}" if without is None else f"{without:>+9.1%}"
        title = f"{at + 1:>2}{' ' if at in errors else '*'} {seen.name}"
        lines.append(f"{title:<40} {seen.published:>9,.0f} {shown}")
    for title, of in (
        ("median of the errors' sizes", lambda c: median(map(abs, c))),
        ("largest size", lambda c: max(map(abs, c))),
        ("mean of the errors", mean),
    ):
        sizes = [of(column) if column else 0.0 for column in columns]
        sign = "+" if of is mean else ""
        shown = " ".join(
            f"{s:>{sign}{width}.1%}" for s, width in zip(sizes, (8, 8, 9), strict=True)
        )
        lines.append(f"{title:<40} {'':>9} {shown}")
    if len(chosen) < len(observations):
        lines.append("*: not fitted to, predicted only")
    if None in errors.values():
        lines.append("-: a constant hangs on this figure alone, so no other predicts it")
    return "\n".join(lines)


def comparable(rows: Sequence[Row]) -> set[int]:
    """Positions of the rows that the constants may be fitted to."""
    return {at for at, row in enumerate(rows) if row.is_comparable}


def main(words: Sequence[str] | None = None) -> int:
    """Prints constants and errors."""
    parser = argparse.ArgumentParser(description="fits constants to published throughputs")
    parser.add_argument(
        "--rows", type=int, nargs="+", choices=range(1, len(ROWS) + 1), metavar="N",
        help="numbers of the rows to fit to, as the table has them (default: all but those of an "
        "older SDK)",
    )  # fmt: skip
    arguments = parser.parse_args(words)
    paddle.enable_static()
    paddle_ipu.activate()
    chosen = {at - 1 for at in arguments.rows or ()} or comparable(ROWS)
    print(text(observed(ROWS), sorted(chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
