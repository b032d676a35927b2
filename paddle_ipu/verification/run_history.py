"""Several runs of a program on either side, one after the other."""

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
    """The results of all runs of one side.

    Attributes:
        results: name -> an array for every micro-batch of all runs.
        variables: those that training and the forward part write, after the last run.
        steps: training by steps, on the IPU; empty for a single run.
    """

    results: Results
    variables: State = field(default_factory=dict)
    steps: list[StepRow] = field(default_factory=list)


def follow(case: Case, side: str, fetches: Sequence[str], steps: int) -> RunHistory:
    """Runs one side.

    Args:
        case: what is verified.
        side: ``ON_CPU``, or the precision of the IPU side.
        fetches: names, raw gradients too.
        steps: the number of runs.
    """
    history = RunHistory({name: [] for name in fetches})
    updated = updated_names(case)
    if side == ON_CPU:
        cpu = Cpu(case, fetches, case.state)
        run_micro_batches(cpu, case, updated, range(steps * case.run_length), history)
    else:
        _follow_ipu(case, side, fetches, steps, history, updated)
    return history


def updated_names(case: Case) -> list[str]:
    """The variables that are compared after the last run."""
    if case.accumulates and case.on_cpu:
        return list(bisection.written_variables(case.forward))
    return list(bisection.updated_variables(case.forward))


def run_micro_batches(
    cpu: Cpu, case: Case, updated: Sequence[str], micro_batches: Iterable[int], history: RunHistory
) -> None:
    """Runs micro-batches on Paddle's CPU kernels, from the variables of the scope.

    Args:
        updated: the variables that are read after the last one.
        micro_batches: their numbers, counted over the runs.
        history: takes the results and variables.
    """
    for micro_batch in micro_batches:
        if case.accumulates:
            cpu.restore(_without(case.state, updated))
        for name, array in cpu.run(case.feed_of(micro_batch)).items():
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
    """One run of the IPU, which Paddle can repeat from the same variables.

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
    """The IPU's runs of a history, one by one.

    Args:
        case: the verified program and its state before the first run.
        history: what was recorded; it has the results of a single run.
        steps: the number of runs; if several, they are repeated on the IPU Model.
    """
    if steps == 1:
        after = {**case.state, **history.variables}
        yield Run(0, case.state, after, history.results)
        return
    changing = changing_variables(case)
    ipu = Ipu(case, list(history.results), case.state)
    before = case.state
    try:
        for step in range(steps):
            results = ipu.run(case.feed(step))
            after = {**before, **ipu.variables(changing)}
            yield Run(step, before, after, results)
            before = after
    finally:
        ipu.close()


def changing_variables(case: Case) -> list[str]:
    """The variables that a run may change."""
    changing = list(bisection.updated_variables(case.forward))
    optimizer = case.forward.optimizer
    if optimizer is not None and optimizer.loss_scale is not None:
        changing += optimizer.loss_scale.variables
    if optimizer is not None:
        changing.append(optimizer.loss_scale_variable)
    return [name for name in changing if name in case.state]


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


def state_before(case: Case, side: str, micro_batch: int) -> State:
    """The variables before a micro-batch.

    Args:
        case: what is verified.
        side: ``ON_CPU``, or the precision of the IPU side; it runs the micro-batches before.
        micro_batch: its number, counted over the runs.
    """
    if micro_batch == 0:
        return dict(case.state)
    changing = changing_variables(case)
    state = dict(case.state)
    if side == ON_CPU:
        written = list(bisection.written_variables(case.forward))
        names = written if case.accumulates else list(state)
        cpu = Cpu(case, case.fetches, state)
        for earlier in range(micro_batch):
            cpu.restore(_without(state, names))
            cpu.run(case.feed_of(earlier))
        return {**state, **cpu.variables(names)}
    steps, rest = divmod(micro_batch, case.run_length)
    if steps:
        state.update(_after(case, side, state, changing, [case.feed(n) for n in range(steps)]))
    if rest and not case.accumulates:
        first = steps * case.run_length
        feeds = [case.feed_of(n) for n in range(first, micro_batch)]
        state.update(_after(case, side, state, changing, feeds, first))
    return state


def _after(
    case: Case,
    precision: str,
    state: State,
    changing: Sequence[str],
    feeds: Sequence[Mapping[str, Array]],
    first: int | None = None,
) -> State:
    """The changing variables after runs; of one micro-batch each from `first` on, where given."""
    ipu = Ipu(
        case, case.fetches, state, precision=precision, one_micro_batch=first is not None,
        micro_batch=first or 0,
    )  # fmt: skip
    try:
        for feed in feeds:
            ipu.run(feed)
        return ipu.variables(changing)
    finally:
        ipu.close()
