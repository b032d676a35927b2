"""What becomes of a program over several runs, on either side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from paddle_ipu.verification import bisection
from paddle_ipu.verification.contents import StepRow
from paddle_ipu.verification.sides import (
    ON_CPU,
    Array,
    Case,
    Cpu,
    Ipu,
    Results,
    State,
)


@dataclass(slots=True)
class RunHistory:
    """What all runs of one side gave.

    Attributes:
        results: of every micro-batch, over the runs.
        variables: what training and the forward part write, after the last run.
        steps: how training went; of one run, and on the CPU, nothing.
    """

    results: Results
    variables: State = field(default_factory=dict)
    steps: list[StepRow] = field(default_factory=list)


def follow(case: Case, side: str, fetches: Sequence[str], steps: int) -> RunHistory:
    """Runs one side.

    Args:
        side: ``ON_CPU``, or the precision of the IPU side.
        fetches: names, raw gradients too.
    """
    history = RunHistory({name: [] for name in fetches})
    updated = updated_names(case)
    if side == ON_CPU:
        _follow_cpu(case, fetches, steps, history, updated)
    else:
        _follow_ipu(case, side, fetches, steps, history, updated)
    return history


def updated_names(case: Case) -> list[str]:
    """The variables that are compared after the last run."""
    if case.accumulates and case.on_cpu:
        return list(bisection.written_variables(case.forward))
    return list(bisection.updated_variables(case.forward))


def _follow_cpu(
    case: Case, fetches: Sequence[str], steps: int, history: RunHistory, updated: Sequence[str]
) -> None:
    cpu = Cpu(case, fetches, case.state)
    run_micro_batches(cpu, case, updated, range(steps * case.turns), history)


def run_micro_batches(
    cpu: Cpu, case: Case, updated: Sequence[str], turns: Iterable[int], history: RunHistory
) -> None:
    """Runs micro-batches on Paddle's CPU kernels, from what the scope holds.

    Args:
        updated: the variables that are read behind the last one.
        turns: their numbers, counted over the runs.
        history: is given the results and variables.
    """
    for turn in turns:
        if case.accumulates:
            cpu.restore(_without(case.state, updated))
        for name, array in cpu.run(case.micro_batch(turn)).items():
            history.results[name].append(array)
    history.variables = cpu.variables(updated)


def _follow_ipu(
    case: Case,
    precision: str,
    fetches: Sequence[str],
    steps: int,
    history: RunHistory,
    updated: Sequence[str],
) -> None:
    ipu = Ipu(case, fetches, case.state, precision=precision)
    trained = list(case.forward.gradients.values())
    before = [case.state[name] for name in trained]
    try:
        for step in range(steps):
            results = ipu.run(case.feed(step))
            for name, arrays in results.items():
                history.results[name] += arrays
            if case.training and steps > 1:
                after = list(ipu.variables(trained).values())
                history.steps.append(_step(case, results, before, after))
                before = after
        history.variables = ipu.variables(updated)
    finally:
        ipu.close()


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the IPU, for which Paddle can be asked again from the same variables.

    Attributes:
        step: its number.
        before, after: the variables.
        results: of its micro-batches.
    """

    step: int
    before: State
    after: State
    results: Results


def runs(case: Case, history: RunHistory, steps: int) -> Iterator[Run]:
    """The IPU's runs of a history one by one; where there were several they are made again."""
    if steps == 1:
        after = {**case.state, **history.variables}
        yield Run(0, case.state, after, history.results)
        return
    moving = moving_variables(case)
    ipu = Ipu(case, list(history.results), case.state)
    before = case.state
    try:
        for step in range(steps):
            results = ipu.run(case.feed(step))
            after = {**before, **ipu.variables(moving)}
            yield Run(step, before, after, results)
            before = after
    finally:
        ipu.close()


def moving_variables(case: Case) -> list[str]:
    """The variables that a run may change."""
    moving = list(bisection.updated_variables(case.forward))
    optimizer = case.forward.optimizer
    if optimizer is not None and optimizer.loss_scale is not None:
        moving += optimizer.loss_scale.variables
    if optimizer is not None:
        moving.append(optimizer.loss_scale_variable)
    return [name for name in moving if name in case.state]


def _step(case: Case, results: Results, before: Sequence[Array], after: Sequence[Array]) -> StepRow:
    numbers = [name for name in case.fetches if results[name][0].size == 1]
    loss = None if not numbers else float(np.mean([a.item() for a in results[numbers[0]]]))
    with np.errstate(all="ignore"):
        moved = norm(
            [np.subtract(a, b, dtype=np.float64) for a, b in zip(after, before, strict=True)]
        )
        start = norm(before)
        return StepRow(
            loss,
            norm([results[name][-1] for name in case.forward.gradients]),
            norm(after),
            moved / start if start else 0.0,
        )


def norm(arrays: Sequence[Array]) -> float:
    """The norm of all numbers together."""
    squares = [float(np.square(np.asarray(array, np.float64)).sum()) for array in arrays]
    return float(np.sqrt(sum(squares)))


def _without(state: State, names: Collection[str]) -> State:
    return {name: array for name, array in state.items() if name not in names}


def state_before(case: Case, side: str, turn: int) -> State:
    """The variables before a micro-batch, counted over the runs."""
    if turn == 0:
        return dict(case.state)
    moving = moving_variables(case)
    state = dict(case.state)
    if side == ON_CPU:
        written = list(bisection.written_variables(case.forward))
        kept = written if case.accumulates else list(state)
        cpu = Cpu(case, case.fetches, state)
        for earlier in range(turn):
            cpu.restore(_without(state, kept))
            cpu.run(case.micro_batch(earlier))
        return {**state, **cpu.variables(kept)}
    steps, rest = divmod(turn, case.turns)
    if steps:
        state.update(_after(case, side, state, moving, [case.feed(n) for n in range(steps)]))
    if rest and not case.accumulates:
        first = steps * case.turns
        feeds = [case.micro_batch(n) for n in range(first, turn)]
        state.update(_after(case, side, state, moving, feeds, first))
    return state


def _after(
    case: Case,
    precision: str,
    state: State,
    moving: Sequence[str],
    feeds: Sequence[Mapping[str, Array]],
    first: int | None = None,
) -> State:
    """The moving variables after runs; of one micro-batch each from `first` on, where given."""
    ipu = Ipu(
        case, case.fetches, state, precision=precision, one_micro_batch=first is not None,
        turn=first or 0,
    )  # fmt: skip
    try:
        for feed in feeds:
            ipu.run(feed)
        return ipu.variables(moving)
    finally:
        ipu.close()
