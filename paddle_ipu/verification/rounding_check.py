"""Whether what is out of tolerance is rounding: every run of the IPU beside Paddle's, from the
variables that the IPU had before it.

A difference of one run, which the next ones magnify, then counts in that run alone. Fetches,
gradients and what forward writes are compared with Paddle's nudged runs
(:mod:`~paddle_ipu.verification.rounding`). Weights and states of an optimizer are first compared
with those that Paddle's optimizer computes of the IPU's own gradients: Adam's first step turns the
sign of a gradient of 1e-9 into a whole step, and that is no fault of the update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paddle_ipu.verification import bisection
from paddle_ipu.verification.comparison import Comparison, compare
from paddle_ipu.verification.copies import copy_of
from paddle_ipu.verification.program_copy import added_to
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.verification.rounding import RUNS, nudged
from paddle_ipu.verification.run_history import (
    Run,
    RunHistory,
    run_micro_batches,
    runs,
    updated_names,
)
from paddle_ipu.verification.sides import Array, Case, Cpu


@dataclass(slots=True)
class _Difference:
    """A tensor out of tolerance: whether every run so far was rounding, and their largest noise."""

    is_rounding: bool = True
    noise: float = 0.0

    def add(self, row: Comparison) -> None:
        self.is_rounding = self.is_rounding and row.ok
        self.noise = max(self.noise, row.noise)


def mark_rounding(case: Case, report: VerificationReport, history: RunHistory) -> None:
    """Marks the rows of a report that are out of tolerance by no more than rounding.

    Args:
        case: what is verified.
        report: its rows are changed in place.
        history: the IPU's results.
    """
    rows = (*report.fetches, *report.gradients, *report.updates)
    differences = {row.name: _Difference() for row in rows if not row.ok}
    if not differences:
        return
    fetches = list(history.results)
    updated = updated_names(case)
    cpu = Cpu(case, fetches, case.state)
    trained = _trained(case)
    wanted = sorted(trained & differences.keys())
    optimizer = _Optimizer(case, history, wanted) if wanted else None
    for run in runs(case, history, report.steps):
        reference = _ReferenceRun(case, report, run, cpu, fetches, updated)
        # Gradients first: what follows from a wrong one is not rounding.
        for name in differences.keys() - trained:
            differences[name].add(reference.row(name))
        are_right = all(
            differences[name].is_rounding for name in differences if name in case.forward.gradients
        )
        by_optimizer = optimizer.rows(report, run) if optimizer and are_right else {}
        for name in differences.keys() & trained:
            row = by_optimizer.get(name)
            differences[name].add(row if row is not None and row.ok else reference.row(name))
    for part in (report.fetches, report.gradients, report.updates):
        part[:] = [_marked(row, differences.get(row.name)) for row in part]


def unmark_rounding(report: VerificationReport) -> None:
    """Takes back what :func:`mark_rounding` marked: some operator is wrong for its operands."""
    for part in (report.fetches, report.gradients, report.updates):
        part[:] = [replace(row, ok=False, rounding=False) if row.rounding else row for row in part]


def _marked(row: Comparison, difference: _Difference | None) -> Comparison:
    if row.ok or difference is None:
        return row
    is_rounding = difference.is_rounding
    return replace(row, ok=is_rounding, rounding=is_rounding, noise=difference.noise)


def _trained(case: Case) -> set[str]:
    """What the optimizer updates, where that is compared."""
    if case.accumulates:
        return set()
    return set(bisection.updated_variables(case.forward)) - set(
        bisection.written_variables(case.forward)
    )


class _ReferenceRun:
    """One run of the IPU beside Paddle's from the same variables."""

    def __init__(
        self,
        case: Case,
        report: VerificationReport,
        run: Run,
        cpu: Cpu,
        fetches: Sequence[str],
        updated: Sequence[str],
    ) -> None:
        self._case, self._report, self._run = case, report, run
        self._cpu, self._fetches, self._updated = cpu, fetches, updated
        self._expected: RunHistory | None = None
        self._nudged: list[RunHistory] = []

    def row(self, name: str) -> Comparison:
        """The comparison of a fetch, gradient or variable; nudged runs are made on a difference."""
        if self._expected is None:
            self._expected = self._paddle(None)
        row = self._compare(name, self._expected)
        if row.ok:
            return row
        self._nudged = self._nudged or [self._paddle(seed) for seed in range(RUNS)]
        return self._compare(name, self._expected)

    def _paddle(self, seed: int | None) -> RunHistory:
        case = replace(self._case, state=self._run.before)
        if seed is not None:
            feeds = [nudged(feed, seed) for feed in case.feeds]
            case = replace(case, feeds=feeds, state=nudged(case.state, seed))
        self._cpu.restore(case.state)
        history = RunHistory({name: [] for name in self._fetches})
        first = self._run.step * case.run_length
        micro_batches = range(first, first + case.run_length)
        run_micro_batches(self._cpu, case, self._updated, micro_batches, history)
        return history

    def _compare(self, name: str, expected: RunHistory) -> Comparison:
        if name in expected.results:
            got = self._run.results[name]
            arrays = [history.results[name] for history in (expected, *self._nudged)]
        else:
            got = [self._run.after[name]]
            arrays = [[history.variables[name]] for history in (expected, *self._nudged)]
        return compare(
            name, got=got, expected=arrays[0], nudged=arrays[1:], rtol=self._report.rtol,
            atol=self._report.atol,
        )  # fmt: skip


class _Optimizer:
    """Paddle's optimizer by itself, which is fed raw gradients."""

    def __init__(self, case: Case, history: RunHistory, names: Sequence[str]) -> None:
        """Cuts the program; `names` are those of the variables to compare."""
        import paddle

        self._names = names

        parts = case.copy.pruned(list(case.forward.gradients), training=True)
        self._feeds: dict[str, str] = {}
        values = {}
        operands = list(parts.operands())
        with added_to(parts, "fed."):
            for number, name in enumerate(case.forward.gradients):
                array = history.results[name][0]
                self._feeds[name] = f"fed.gradient.{number}"
                values[name] = paddle.static.data(
                    self._feeds[name], list(array.shape), array.dtype.name
                )
        for operand in operands:
            if operand.name in values:
                operand.replace(values[operand.name])
        self._case = replace(case, copy=copy_of(parts.program))
        # Without fetches, forward and backward are pruned: the updates do not need them.
        self._cpu = Cpu(self._case, [], case.state)

    def rows(self, report: VerificationReport, run: Run) -> dict[str, Comparison]:
        """The IPU's variables after a run beside Paddle's updates by the IPU's gradients."""
        runs = [self._updated(run, seed) for seed in (None, *range(RUNS))]
        return {
            name: compare(
                name, got=[run.after[name]], expected=[runs[0][name]],
                nudged=[[arrays[name]] for arrays in runs[1:]], rtol=report.rtol, atol=report.atol,
            )
            for name in self._names
        }  # fmt: skip

    def _updated(self, run: Run, seed: int | None) -> Mapping[str, Array]:
        state = run.before if seed is None else nudged(run.before, seed)
        self._cpu.restore(state)
        for index in range(self._case.run_length):
            feed = self._case.feed_of(run.step * self._case.run_length + index)
            feed |= {self._feeds[name]: run.results[name][index] for name in self._feeds}
            self._cpu.run(feed if seed is None else nudged(feed, seed))
        return self._cpu.variables(self._names)
