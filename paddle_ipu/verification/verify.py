"""``paddle_ipu.verify``: a program on the IPU beside the same one on Paddle's CPU kernels, or
beside itself in another precision.

Both sides run copies: of the program, and of the variables in the scope. On a difference one
micro-batch runs again with every forward value fetched, from the same weights, and the first
operator is named that is wrong for what it read; where a value is not finite, the operator that
made it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnx_ir as ir

from paddle_ipu.compiler.kernel_requirements import check_kernels
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import FeedError, NotSupported, PaddleIpuError, VerificationError
from paddle_ipu.frontend import programs
from paddle_ipu.options.one_micro_batch import for_one_micro_batch
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.passes.support.update_operators import OPTIMIZER_OPS
from paddle_ipu.runtime import ipu_backend
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.feed_words import described
from paddle_ipu.runtime.feeds import numbers_of
from paddle_ipu.runtime.fetches import flat
from paddle_ipu.runtime.random_seed import fixed_seed
from paddle_ipu.verification import bisection, findings, not_finite
from paddle_ipu.verification.comparison import Comparison, compare
from paddle_ipu.verification.contents import AGREES, DIVERGES, ROUNDS
from paddle_ipu.verification.copies import copy_of
from paddle_ipu.verification.examination import (
    Examination,
    examine,
    floor_of,
    tabulate,
)
from paddle_ipu.verification.isolation import isolate
from paddle_ipu.verification.program_copy import ProgramCopy
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.verification.rounding import RUNS, nudged
from paddle_ipu.verification.rounding_check import mark_rounding, unmark_rounding
from paddle_ipu.verification.run_history import (
    RunHistory,
    follow,
    norm,
    state_before,
    updated_names,
)
from paddle_ipu.verification.sides import (
    AS_COMPILED,
    IN_FLOAT32,
    IN_HALF,
    ON_CPU,
    Array,
    Case,
    Cpu,
    Ipu,
    Results,
    State,
    filled_scope,
)

if TYPE_CHECKING:
    import paddle

Feeds = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_SIDES = {
    "cpu": (AS_COMPILED, ON_CPU),
    "fp32": (AS_COMPILED, IN_FLOAT32),
    "fp16": (IN_HALF, AS_COMPILED),
}


def verify(
    program: paddle.static.Program,
    feed: Feeds,
    fetch_list: Sequence[Any],
    *,
    against: Literal["cpu", "fp32", "fp16"] = "cpu",
    scope: paddle.static.Scope | None = None,
    ipu_strategy: paddle.static.IpuStrategy | None = None,
    steps: int = 1,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    max_drift: float = 0.02,
    without_dropout: bool = False,
    every_operator: bool = False,
    raise_on_mismatch: bool = True,
) -> VerificationReport:
    """Runs a program on the IPU and on another side, and compares what comes out.

    Every fetch is compared; in training also the raw gradient of every parameter, and weights and
    optimizer state after the last step. Program and scope stay as they are, and the learning rate
    is a scheduler's present one throughout.

    Beside another precision there is a table of all operators: how far each drifts, its gradient
    too, and the share of values that half cannot hold. Whatever it is compared with, the report
    tells where the first NaN or infinity of a fetch, a gradient or a weight comes from, and, over
    several steps of training, whether the learning rate is to blame for a loss that goes up.

    Args:
        program: a main program, PIR or ProgramDesc, for training or inference; or what
            ``paddle.static.load_inference_model`` gave.
        feed: name -> the rows of one whole run, as ``Executor.run`` takes them; every step gets it.
            Or a list of these, one for each step.
        fetch_list: names or variables.
        against: ``cpu``: Paddle's CPU kernels. ``fp32``: the same program in float32 on the IPU.
            ``fp16``: what it would be in half; the program as it is is the side that is right.
        scope: holds the program's parameters; the global scope where None.
        ipu_strategy: how to compile; where None, one micro-batch of the feed's rows, training
            exactly when the program has an optimizer.
        steps: how often to run.
        rtol: elements agree when ``|got - expected| <= atol + rtol * |expected|``; integers must be
            equal. What is beyond is *rounding*, which is well, where Paddle's own kernels move as
            far when the last bits of feeds and variables change
            (``paddle_ipu.verification.rounding`` has the formula); else it differs.
        atol: see `rtol`.
        max_drift: beside another precision a tensor agrees when the norm of its error is at most
            this share of its norm.
        without_dropout: run both sides with dropout in test mode.
        every_operator: fill the table of operators when everything agrees, too.
        raise_on_mismatch: raise on a difference, and where something is NaN or infinite; else
            return the report.

    Returns:
        The report; ``print`` it, or browse ``report.save_html(path)``.

    Raises:
        VerificationError: a difference; it names the first diverging operator and the user's line.
            Or a fetch, gradient, weight or state is NaN or infinite, be it on both sides; it names
            the operator that made it so.
        NotSupported: the program draws random numbers, or Paddle's CPU executor cannot run it, or
            not do what the strategy asks for.
        ValueError: `steps` is less than one, or not the number of feeds in a list; `against` is
            none of the three.
    """
    if against not in _SIDES:
        raise ValueError(
            f"verify(against={against!r}): expected one of {', '.join(map(repr, _SIDES))}."
        )
    if steps < 1:
        raise ValueError(f"verify(steps={steps}): expected at least one step.")
    several = isinstance(feed, Iterable) and not isinstance(feed, Mapping | str)
    feeds: list[Any] = list(feed) if several else [feed]
    if not all(isinstance(each, Mapping) for each in feeds):
        raise FeedError(
            "verify: feed must be a dict of arrays by name, or a list of them, one for each step, "
            f"got {described(feed)}."
        )
    if not feeds or (len(feeds) > 1 and steps not in (1, len(feeds))):
        raise ValueError(
            f"verify: got {len(feeds)} feeds for {steps} steps; expected one feed, or one for each "
            "step."
        )
    case = prepare(
        program, feeds, fetch_list, scope, ipu_strategy, without_dropout, on_cpu=against == "cpu"
    )
    steps = max(steps, len(feeds))
    report = VerificationReport(rtol, atol, steps, against=against, max_drift=max_drift)
    fill(report, case, every_operator)
    if raise_on_mismatch and not (report.ok and report.finite):
        raise VerificationError(f"verify: {report.explanation()}", report)
    return report


def fill(report: VerificationReport, case: Case, every_operator: bool) -> None:
    """Verifies a case.

    Args:
        report: has the tolerances, the number of steps and the other side, and takes the results.
        case: of `prepare`.
        every_operator: as for `verify`.
    """
    with ipu_backend.last_program_stays():
        _verify(case, report, every_operator or report.against != "cpu")


def prepare(
    program: paddle.static.Program,
    feeds: Sequence[Mapping[str, Any]],
    fetch_list: Sequence[Any],
    scope: paddle.static.Scope | None = None,
    strategy: paddle.static.IpuStrategy | None = None,
    without_dropout: bool = False,
    on_cpu: bool = True,
) -> Case:
    """Copies what is to be verified.

    Args:
        program, feeds, fetch_list, scope, without_dropout: as for `verify`.
        strategy: its `ipu_strategy`.
        on_cpu: whether the other side is Paddle's CPU kernels.

    Raises:
        NotSupported: the other side cannot run the program, or not as the strategy asks.
    """
    import paddle

    duplicate = copy_of(program, without_dropout=without_dropout)
    graph = duplicate.read()
    declared = [_declared(graph, feed) for feed in feeds]
    scope = paddle.static.global_scope() if scope is None else scope
    strategy = _strategy_for(graph, feeds[0]) if strategy is None else strategy
    values = strategy._ipu_strategy.snapshot()
    training = bool(values["is_training"])
    if on_cpu and training:
        _check_rule_of_paddle(values)
    micro_batches = int(values["accumulation_factor"] * values["replicated_graph_count"])
    accumulates = training and micro_batches > 1
    fetches = [
        item if isinstance(item, str) else duplicate.fetch_name(item) for item in flat(fetch_list)
    ]
    forward = bisection.read_forward(graph, duplicate, list(feeds[0]), fetches, values)
    if on_cpu:
        bisection.check_deterministic(forward)
        check_kernels(dialect.walk(graph), "verify")
        _check_known_to_paddle(duplicate, fetches)
    return Case(
        copy=duplicate,
        feeds=declared,
        fetches=fetches,
        strategy=strategy,
        state=state_of(program, duplicate, scope, forward),
        forward=forward,
        training=training,
        run_length=int(values["batches_per_step"]) * micro_batches,
        accumulates=accumulates,
        on_cpu=on_cpu,
        seed=_seed(program, values),
    )


_OF_PADDLES_RULE: Mapping[str, Any] = {
    "use_no_bias_optimizer": False,
    "optimizer_rule": "paddle",
    "weight_decay_mode": "",
    "max_weight_norm": 65504.0,
    "accl1_type": "FLOAT",
    "accl2_type": "FLOAT",
    "accl3_type": "FLOAT",
}
"""Options that change the rule of an optimizer -> their values with Paddle's."""


def _check_rule_of_paddle(values: Mapping[str, Any]) -> None:
    for name, value in _OF_PADDLES_RULE.items():
        if values[name] != value:
            raise NotSupported(
                f"verify cannot compare {name}: Paddle's CPU kernels update weights by Paddle's "
                f"own rule. Set the option to {value!r} to verify."
            )


def _check_known_to_paddle(duplicate: ProgramCopy, fetches: Sequence[str]) -> None:
    for name in fetches:
        if duplicate.value(name) is None:
            raise NotSupported(
                f"verify cannot fetch {name!r}: the IPU answers that name, but Paddle's program "
                "has no variable of it to compare with. Leave it out; gradients of trained "
                "parameters are compared without being fetched."
            )


def _strategy_for(graph: ir.Graph, feed: Mapping[str, Any]) -> paddle.static.IpuStrategy:
    import paddle

    rows = [
        np.shape(feed[str(value.name)])[0]
        for value in graph.inputs
        if value.name in feed and dialect.dims_of(value)[:1] == [-1]
    ]
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(
        num_ipus=1,
        is_training=any(node.op_type in OPTIMIZER_OPS for node in graph),
        micro_batch_size=int(rows[0]) if rows else 1,
    )
    return strategy


def _seed(program: paddle.static.Program, values: StrategyValues) -> int:
    from paddle.base import core

    seed = fixed_seed(program, values)
    return int(core.default_cpu_generator().initial_seed()) if seed is None else seed


def _declared(graph: ir.Graph, feed: Mapping[str, Any]) -> dict[str, Array]:
    """The feeds in the dtype that the program declares; the IPU side checks the rest."""
    arrays = dict(feed)
    for value in graph.inputs:
        if value.name in arrays:
            name, dtype = str(value.name), dialect.dtype_name(value)
            array = numbers_of(f"feed {name!r}", arrays[name], dtype)
            arrays[name] = scopes.numbers(array).astype(dtype)
    return arrays


def state_of(
    program: paddle.static.Program,
    duplicate: ProgramCopy,
    scope: paddle.static.Scope,
    forward: bisection.Forward,
) -> State:
    """Copies of a program's variables in a scope, with the scheduler's current learning rate.

    With automatic loss scaling the variable of the loss scale is included.

    Args:
        program: the program, with its scheduler.
        duplicate: its copy, which knows the variables' shapes.
        scope: the scope of the variables.
        forward: the forward part, which knows the loss scale's variable.
    """
    state: State = {}
    rate_name = programs.learning_rate_name(program)
    for name, shape in duplicate.variables().items():
        tensor = scopes.tensor(scope, name)
        if tensor is not None:
            state[name] = np.array(scopes.view(tensor))
        if name == rate_name:
            state[name] = np.full(shape, program.lr_scheduler(), np.float32)
    scale = "" if forward.optimizer is None else forward.optimizer.loss_scale_variable
    tensor = scopes.tensor(scope, scale) if scale else None
    if tensor is not None:
        state[scale] = np.array(scopes.view(tensor))
    return state


# -- comparing ----------------------------------------------------------------------------------


def _verify(case: Case, report: VerificationReport, every_operator: bool) -> None:
    if case.accumulates and case.on_cpu:
        _check_one_update(case, report.steps)
        report.notes.append(
            "weights and optimizer state are not compared: Paddle's CPU executor has no gradient "
            "accumulation; every micro-batch ran from the same weights"
        )
    sides = _SIDES[report.against]
    fetches = case.fetches_of_history()
    got = follow(case, sides[0], fetches, report.steps)
    expected = follow(case, sides[1], fetches, report.steps)
    report.history = got.steps
    _compare_histories(case, report, got, expected)
    if case.on_cpu:
        mark_rounding(case, report, got)
    examined = None if report.finite else _explain_what_is_not_finite(case, report, sides, got)
    for finding in (
        findings.learning_rate(case, sides[0], report.steps, got.steps),
        None if case.on_cpu else findings.precision(report, expected),
    ):
        if finding is not None:
            report.findings.append(finding)
    is_rounding = report.verdict == "rounding"
    if every_operator or is_rounding or not report.ok or examined is not None:
        _compare_operators(case, report, sides, examined)
        # The noise of later operators may hide a fault; an operator by itself has little noise.
        if any(row.verdict == DIVERGES for row in report.operators):
            unmark_rounding(report)
    else:

        def later() -> None:
            with ipu_backend.last_program_stays():
                _compare_operators(case, report, sides, None)

        report.postpone(later)


def _compare_histories(
    case: Case, report: VerificationReport, got: RunHistory, expected: RunHistory
) -> None:
    max_drift = None if case.on_cpu else report.max_drift
    everything = norm([a for raw in case.forward.gradients for a in expected.results[raw][:1]])

    def row(name: str, what: str, source: str, floor: float = 0.0) -> Comparison:
        return compare(
            name, got=got.results[name], expected=expected.results[name], what=what,
            source=source, max_drift=max_drift, floor=floor, rtol=report.rtol, atol=report.atol,
        )  # fmt: skip

    sources = bisection.sources(case.forward)
    report.fetches = [row(name, "fetch", sources.get(name, "")) for name in case.fetches]
    report.gradients = [
        row(
            gradient, f"gradient of {case.forward.gradients[gradient]}", sources[gradient],
            floor_of(report, everything),
        )
        for gradient in bisection.backward_order(case.forward)
    ]  # fmt: skip
    updated = bisection.updated_variables(case.forward)
    # Beside another precision a bias that has hardly moved from 0 says nothing by itself.
    kinds = {name: what.partition(" of ")[0] for name, (what, _) in updated.items()}
    norms = {
        kind: norm([a for name, a in expected.variables.items() if kinds[name] == kind])
        for kind in set(kinds.values())
    }
    report.updates = [
        compare(
            name, got=[got.variables[name]], expected=[expected.variables[name]],
            what=updated[name][0], source=updated[name][1], max_drift=max_drift,
            floor=floor_of(report, norms[kinds[name]]), rtol=report.rtol, atol=report.atol,
        )
        for name in updated_names(case)
    ]  # fmt: skip


def _explain_what_is_not_finite(
    case: Case, report: VerificationReport, sides: tuple[str, str], got: RunHistory
) -> Examination | None:
    """Finds where it comes from; returns the micro-batch that was examined for it, if one was."""
    micro_batch = not_finite.first_micro_batch(got.results)
    if micro_batch is None:
        last = report.steps * case.run_length - 1
        origin = not_finite.in_variables(case, got.variables, last)
        report.not_finite += [] if origin is None else [origin]
        return None
    state = state_before(case, sides[0], micro_batch)
    origin = not_finite.in_variables(case, state, micro_batch - 1) if micro_batch else None
    if origin is not None:
        report.not_finite.append(origin)
        return None
    try:
        examined = examine(case, sides, micro_batch, state)
    except PaddleIpuError as error:
        report.notes.append(f"the operators could not be run one by one: {error}")
        return None
    report.not_finite = not_finite.trace(replace(case, state=examined.state), examined)
    return examined


def _check_one_update(case: Case, steps: int) -> None:
    values = case.strategy._ipu_strategy.snapshot()
    batches = int(values["batches_per_step"])
    if steps > 1 or batches > 1:
        raise NotSupported(
            "verify compares gradient accumulation over one update only, since Paddle's CPU "
            f"executor has none to follow it with: got steps={steps}, batches_per_step={batches}, "
            f"accumulation_factor={values['accumulation_factor']}, "
            f"replicated_graph_count={values['replicated_graph_count']}. Use steps=1 and "
            "batches_per_step=1, or verify with one micro-batch an update."
        )


def _compare_operators(
    case: Case,
    report: VerificationReport,
    sides: tuple[str, str],
    examined: Examination | None,
) -> None:
    """Fills the table from the micro-batch examined, else the first with a difference."""
    if examined is None:
        rows = (*report.fetches, *report.gradients)
        number = min((row.micro_batch for row in rows if row.micro_batch is not None), default=0)
        try:
            examined = examine(case, sides, number, state_before(case, sides[1], number))
        except PaddleIpuError as error:
            report.notes.append(f"the operators could not be compared one by one: {error}")
            return
    if examined.micro_batch:
        whose = "the CPU's" if case.on_cpu and not report.not_finite else "the IPU's"
        report.notes.append(
            f"operators are compared on micro-batch {examined.micro_batch}, from {whose} weights "
            "at that point"
        )
    there = replace(case, state=examined.state)
    tabulate(there, examined, report)
    if report.against == "fp32" and not examined.in_half:
        report.notes.append("the program computes nothing in half: both sides are the same")
    for finding in (findings.lost_gradients(there, examined), findings.lost_digits(report)):
        if finding is not None:
            report.findings.append(finding)
    gradients_alone = any(not row.ok for row in report.gradients) and all(
        row.verdict in (AGREES, ROUNDS) for row in report.operators
    )
    if case.on_cpu and gradients_alone and report.finite:
        try:
            _compare_derivatives(case, report, examined)
        except PaddleIpuError as error:
            report.notes.append(f"the operators could not be run by themselves: {error}")


def _compare_derivatives(case: Case, report: VerificationReport, examined: Examination) -> None:
    results = {name: arrays[0] for name, arrays in examined.expected.items()}
    alone = isolate(case.copy, examined.feed, results, examined.state)
    if alone is None:
        return
    # On one IPU: the added operators are not placed.
    strategy = for_one_micro_batch(case.strategy)
    strategy.set_graph_config(
        num_ipus=1,
        is_training=True,
        micro_batch_size=int(strategy._ipu_strategy.snapshot()["micro_batch_size"]),
        enable_manual_shard=False,
    )
    scope = filled_scope(dict(alone.state))
    parts = replace(prepare(alone.program, [alone.feed], [], scope, strategy), run_length=1)
    parameters = parts.forward.gradients
    got, expected, others = _gradients_alone(parts, list(parameters))
    report.derivatives = bisection.derivative_rows(
        case.forward,
        parts.forward,
        {parameters[name]: arrays for name, arrays in got.items()},
        {parameters[name]: arrays for name, arrays in expected.items()},
        rtol=report.rtol,
        atol=report.atol,
        nudged=[{parameters[name]: arrays for name, arrays in run.items()} for run in others],
    )


def _gradients_alone(parts: Case, names: Sequence[str]) -> tuple[Results, Results, list[Results]]:
    """(the IPU's, the CPU's, the CPU's for nudged inputs) gradients of one micro-batch."""
    feed = parts.feed(0)
    cpu = Cpu(parts, names, parts.state, as_computed=True)

    def on_cpu(seed: int | None) -> Results:
        cpu.restore(parts.state if seed is None else nudged(parts.state, seed))
        gradients = cpu.run(feed if seed is None else nudged(feed, seed))
        return {name: [array] for name, array in gradients.items()}

    expected, *others = [on_cpu(seed) for seed in (None, *range(RUNS))]
    ipu = Ipu(parts, names, parts.state, one_micro_batch=True)
    try:
        return ipu.run(feed), expected, others
    finally:
        ipu.close()
