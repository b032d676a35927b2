"""One micro-batch of both sides with every forward value fetched, and every gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paddle_ipu.verification import bisection
from paddle_ipu.verification.comparison import Comparison, compare
from paddle_ipu.verification.contents import OperatorRow
from paddle_ipu.verification.copies import copy_of
from paddle_ipu.verification.isolation import cut
from paddle_ipu.verification.operator_flows import operator_flows
from paddle_ipu.verification.ranges import ValueRange, best_scale, measure, scale_table
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.verification.rounding import RUNS, nudged
from paddle_ipu.verification.run_history import norm
from paddle_ipu.verification.sides import ON_CPU, Array, Case, Cpu, Ipu, Results, State


@dataclass(frozen=True, slots=True)
class Examination:
    """What both sides gave for one micro-batch.

    Attributes:
        micro_batch: its number, counted over the runs.
        state: the variables before it.
        feed: its feeds.
        got, expected: name -> its one array; gradients under the names that fetch them.
        in_half: True when a forward value of the IPU's is float16.
    """

    micro_batch: int
    state: State
    feed: Mapping[str, Array]
    got: Results
    expected: Results
    in_half: bool


def examine(case: Case, sides: tuple[str, str], micro_batch: int, state: State) -> Examination:
    """Runs one micro-batch on both sides.

    Args:
        case: what is verified.
        sides: what the IPU side computes in, and the other side.
        micro_batch: its number, counted over the runs.
        state: the variables that both start from.
    """
    names = [str(value.name) for _, value in case.forward.results]
    gradients = [*case.forward.gradients, *case.forward.backward.values()] if case.training else []
    expected = _run(case, sides[1], names, gradients, micro_batch, state)
    got = _run(case, sides[0], names, gradients, micro_batch, state)
    in_half = any(got[name][0].dtype.name == "float16" for name in names)
    return Examination(micro_batch, state, case.feed_of(micro_batch), got, expected, in_half)


def _run(
    case: Case, side: str, names: list[str], gradients: list[str], micro_batch: int, state: State
) -> Results:
    feed = case.feed_of(micro_batch)
    if side == ON_CPU:
        values = Cpu(case, names, state, as_computed=True).run(feed)
        return {name: [array] for name, array in values.items()}
    wanted = [*names, *gradients]
    ipu = Ipu(case, wanted, state, precision=side, one_micro_batch=True, micro_batch=micro_batch)
    try:
        return ipu.run(feed)
    finally:
        ipu.close()


def tabulate(case: Case, examined: Examination, report: VerificationReport) -> None:
    """Adds the table of operators to a report, with what they hand to each other.

    Where gradients are half it adds the table of loss scales, too.

    Args:
        case: the verified program and its state.
        examined: the values of both sides.
        report: the report, which is modified; its tolerances are used.
    """
    by_drift = None if case.on_cpu else report.max_drift
    rows = bisection.drift_table(
        case.forward, examined.got, examined.expected, rtol=report.rtol, atol=report.atol,
        max_drift=by_drift, alone=_alone(case, examined, report) if case.on_cpu else {},
    )  # fmt: skip
    report.operators = [_with_ranges(case, examined, report, row) for row in rows]
    report.flows = list(operator_flows(case.forward, report.operators))
    report.loss_scale = case.loss_scale
    if not examined.in_half or not case.training:
        return
    ranges = gradient_ranges(case, examined)
    best = best_scale(ranges)
    scales = {1.0, 2.0**8, 2.0**16, case.loss_scale} | ({best} if best else set())
    report.scales = scale_table(ranges, sorted(scales))


def _alone(case: Case, examined: Examination, report: VerificationReport) -> dict[str, Comparison]:
    """Result -> the IPU's beside that of Paddle's kernel for the operands on the IPU."""
    names = [str(value.name) for _, value in case.forward.results]
    got = {name: examined.got[name][0] for name in names}
    dtypes = {name: examined.expected[name][0].dtype.name for name in names}
    program, operands = cut(case.copy, got, dtypes)
    parts = replace(case, copy=copy_of(program), training=False)
    cpu = Cpu(parts, names, examined.state, as_computed=True)
    feed = {**examined.feed, **operands}

    def compared(name: str, runs: Sequence[Mapping[str, Array]]) -> Comparison:
        return compare(
            name, got=[got[name]], expected=[runs[0][name]],
            nudged=[[run[name]] for run in runs[1:]], rtol=report.rtol, atol=report.atol,
        )  # fmt: skip

    runs = [cpu.run(feed)]
    rows = {name: compared(name, runs) for name in names}
    doubtful = [name for name, row in rows.items() if not row.ok]
    if doubtful:
        for seed in range(RUNS):
            cpu.restore(nudged(examined.state, seed))
            runs.append(cpu.run(nudged(feed, seed)))
        rows.update((name, compared(name, runs)) for name in doubtful)
    return rows


def gradient_ranges(case: Case, examined: Examination) -> list[ValueRange]:
    """The ranges of all gradients, without the loss scale."""
    names = [*case.forward.gradients, *case.forward.backward.values()]
    return [measure(_reference(examined, name)) for name in names if name in examined.got]


def _reference(examined: Examination, name: str) -> list[Array]:
    return examined.expected.get(name) or examined.got[name]


def _with_ranges(
    case: Case, examined: Examination, report: VerificationReport, row: OperatorRow
) -> OperatorRow:
    name = row.result.name
    values = examined.expected[name]
    if values[0].dtype.kind not in "fV":
        return row
    fetch = case.forward.backward.get(name)
    if fetch is None or fetch not in examined.got:
        return replace(row, values=measure(values))
    gradient = None
    if fetch in examined.expected:
        everything = norm([examined.expected[raw][0] for raw in case.forward.gradients])
        gradient = compare(
            name, got=examined.got[fetch], expected=examined.expected[fetch], rtol=report.rtol,
            atol=report.atol, what=f"gradient of {name}", source=row.source,
            max_drift=report.max_drift, floor=floor_of(report, everything),
        )  # fmt: skip
    return replace(
        row,
        values=measure(values),
        gradient=gradient,
        gradient_values=measure(_reference(examined, fetch), case.loss_scale),
    )


def floor_of(report: VerificationReport, everything: float) -> float:
    """The error that a tensor may have however small it is, by the norm of all of its kind."""
    return 0.01 * report.max_drift * everything
