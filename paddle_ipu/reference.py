"""``paddle_ipu.verify``: a program on the IPU beside the same program on Paddle's CPU kernels.

Both sides run copies: of the program, and of the variables in the scope. On a difference one
micro-batch runs again with every forward value fetched, from the CPU's weights at that point, and
the first operator that differs while all it reads agrees is named.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu import backend as backends
from paddle_ipu import dialect
from paddle_ipu import scope as scopes
from paddle_ipu.errors import NotSupported, PaddleIpuError, VerificationError
from paddle_ipu.frontend import programs
from paddle_ipu.passes.extract_optimizer import OPTIMIZER_OPS
from paddle_ipu.verification import bisection
from paddle_ipu.verification.isolation import isolate
from paddle_ipu.verification.program_copy import ProgramCopy, copy_of
from paddle_ipu.verification.report import AGREES, Comparison, VerificationReport, compare
from paddle_ipu.verification.sides import Array, Case, Cpu, Ipu, Results, State, filled_scope


def verify(
    program: Any,
    feed: Mapping[str, Any],
    fetch_list: Sequence[Any],
    *,
    scope: Any = None,
    ipu_strategy: Any = None,
    steps: int = 1,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    without_dropout: bool = False,
    every_operator: bool = False,
    raise_on_mismatch: bool = True,
) -> VerificationReport:
    """Runs a program on the IPU and on Paddle's CPU kernels and compares what comes out.

    Every fetch is compared; in training also the raw gradient of every parameter, and weights and
    optimizer state after the last step. Program and scope stay as they are, and the learning rate
    is a scheduler's present one throughout.

    Args:
        program: a main program, PIR or ProgramDesc, for training or inference; or what
            ``paddle.static.load_inference_model`` gave.
        feed: name -> the rows of one whole run, as ``Executor.run`` takes them; every step gets it.
        fetch_list: names or variables.
        scope: holds the program's parameters; the global scope where None.
        ipu_strategy: how to compile; where None, one micro-batch of the feed's rows, training
            exactly when the program has an optimizer.
        steps: how often to run.
        rtol, atol: elements agree when ``|got - expected| <= atol + rtol * |expected|``; integers
            must be equal.
        without_dropout: run both sides with dropout in test mode.
        every_operator: fill the table of operators when everything agrees, too.
        raise_on_mismatch: raise on a difference; else return the report.

    Returns:
        The report; ``print`` it, or browse ``report.save_html(path)``.

    Raises:
        VerificationError: a difference; it names the first diverging operator and the user's line.
        NotSupported: the program draws random numbers, or Paddle's CPU executor cannot run it, or
            not do what the strategy asks for.
        ValueError: `steps` is less than one.
    """
    if steps < 1:
        raise ValueError(f"verify(steps={steps}): expected at least one step.")
    case = prepare(program, feed, fetch_list, scope, ipu_strategy, without_dropout)
    with backends.last_program_stays():
        report = _verify(case, steps, rtol, atol, every_operator)
    if raise_on_mismatch and not report.ok:
        raise VerificationError(f"verify: {report.explanation()}", report)
    return report


def prepare(
    program: Any,
    feed: Mapping[str, Any],
    fetch_list: Sequence[Any],
    scope: Any = None,
    strategy: Any = None,
    without_dropout: bool = False,
) -> Case:
    """Copies what is to be verified; the arguments are those of :func:`verify`."""
    import paddle

    duplicate = copy_of(program, without_dropout=without_dropout)
    graph = duplicate.read()
    scope = paddle.static.global_scope() if scope is None else scope
    strategy = _strategy_for(graph, feed) if strategy is None else strategy
    values = strategy._ipu_strategy.snapshot()
    training = bool(values["is_training"])
    if training and values["use_no_bias_optimizer"]:
        raise NotSupported(
            "verify cannot compare use_no_bias_optimizer: Paddle's CPU kernels always correct the "
            "bias. Set the option to False to verify."
        )
    accumulates = bool(values["enable_gradient_accumulation"]) and values["accumulation_factor"] > 1
    turns = int(values["batches_per_step"])
    if accumulates:
        turns *= int(values["accumulation_factor"])
    fetches = [item if isinstance(item, str) else duplicate.fetch_name(item) for item in fetch_list]
    declared = _declared(graph, feed)
    forward = bisection.read_forward(graph, duplicate, list(feed), fetches, values)
    bisection.check_deterministic(forward)
    _check_known_to_paddle(duplicate, fetches)
    return Case(
        copy=duplicate,
        feed=declared,
        fetches=fetches,
        strategy=strategy,
        state=_state(program, duplicate, scope),
        forward=forward,
        training=training,
        turns=turns,
        accumulates=accumulates,
    )


def _check_known_to_paddle(duplicate: ProgramCopy, fetches: Sequence[str]) -> None:
    for name in fetches:
        if duplicate.value(name) is None:
            raise NotSupported(
                f"verify cannot fetch {name!r}: the IPU answers that name, but Paddle's program "
                "has no variable of it to compare with. Leave it out; gradients of trained "
                "parameters are compared without being fetched."
            )


def _strategy_for(graph: ir.Graph, feed: Mapping[str, Any]) -> Any:
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


def _declared(graph: ir.Graph, feed: Mapping[str, Any]) -> dict[str, Array]:
    """The feeds in the dtype that the program declares; the IPU side checks the rest."""
    arrays = {name: np.asarray(value) for name, value in feed.items()}
    for value in graph.inputs:
        if value.name in arrays:
            name = str(value.name)
            arrays[name] = arrays[name].astype(dialect.dtype_name(value))
    return arrays


def _state(program: Any, duplicate: ProgramCopy, scope: Any) -> State:
    state: State = {}
    rate_name = programs.learning_rate_name(program)
    for name, shape in duplicate.variables().items():
        found = scopes.tensor(scope, name)
        if found is not None:
            state[name] = np.array(scopes.view(found))
        if name == rate_name:
            state[name] = np.full(shape, program.lr_scheduler(), np.float32)
    return state


# -- comparing ----------------------------------------------------------------------------------


def _verify(
    case: Case, steps: int, rtol: float, atol: float, every_operator: bool
) -> VerificationReport:
    report = VerificationReport(rtol, atol, steps)
    if case.accumulates:
        _check_one_update(case, steps)
        report.notes.append(
            "weights and optimizer state are not compared: Paddle's CPU executor has no gradient "
            "accumulation; every micro-batch ran from the same weights"
        )
    fetches = list(dict.fromkeys([*case.fetches, *case.forward.gradients]))
    written = bisection.written_variables(case.forward)
    updated = written if case.accumulates else bisection.updated_variables(case.forward)
    ipu = Ipu(case, case.strategy, case.turns, fetches, case.state)
    cpu = Cpu(case, fetches, case.state)
    got: Results = {name: [] for name in fetches}
    expected: Results = {name: [] for name in fetches}
    try:
        for _ in range(steps):
            for name, arrays in ipu.run(case.feed).items():
                got[name] += arrays
        ipu_variables = ipu.variables(list(updated))
    finally:
        ipu.close()
    for _ in range(steps):
        for turn in range(case.turns):
            if case.accumulates:
                cpu.restore({n: array for n, array in case.state.items() if n not in written})
            for name, array in cpu.run(case.micro_batch(turn)).items():
                expected[name].append(array)
    cpu_variables = cpu.variables(list(updated))

    def row(name: str, what: str, source: str) -> Comparison:
        return compare(
            name, got=got[name], expected=expected[name], rtol=rtol, atol=atol, what=what,
            source=source,
        )  # fmt: skip

    sources = bisection.sources(case.forward)
    report.fetches = [row(name, "fetch", sources.get(name, "")) for name in case.fetches]
    report.gradients = [
        row(gradient, f"gradient of {case.forward.gradients[gradient]}", sources[gradient])
        for gradient in bisection.backward_order(case.forward)
    ]
    report.updates = [
        compare(
            name, got=[ipu_variables[name]], expected=[cpu_variables[name]], rtol=rtol, atol=atol,
            what=what, source=source,
        )
        for name, (what, source) in updated.items()
    ]  # fmt: skip
    if every_operator or not report.ok:
        _compare_operators(case, report)
    return report


def _check_one_update(case: Case, steps: int) -> None:
    values = case.strategy._ipu_strategy.snapshot()
    batches = int(values["batches_per_step"])
    if steps > 1 or batches > 1:
        raise NotSupported(
            "verify compares gradient accumulation over one update only, since Paddle's CPU "
            f"executor has none to follow it with: got steps={steps}, batches_per_step={batches}, "
            f"accumulation_factor={values['accumulation_factor']}. Use steps=1 and "
            "batches_per_step=1, or verify with accumulation_factor=1."
        )


def _compare_operators(case: Case, report: VerificationReport) -> None:
    """Fills the table, from the first micro-batch with a difference."""
    rows = (*report.fetches, *report.gradients)
    differing = [row.micro_batch for row in rows if row.micro_batch is not None]
    turn = min(differing, default=0)
    state = dict(case.state)
    if turn:
        moving = bisection.written_variables(case.forward) if case.accumulates else state
        before = Cpu(case, case.fetches, case.state)
        for earlier in range(turn):
            before.restore({n: array for n, array in case.state.items() if n not in moving})
            before.run(case.micro_batch(earlier % case.turns))
        state.update(before.variables(list(moving)))
        report.notes.append(
            f"operators are compared on micro-batch {turn}, from the CPU's weights at that point"
        )
    names = [str(value.name) for _, value in case.forward.results]
    feed = case.micro_batch(turn % case.turns)
    try:
        got, expected = _one_micro_batch(case, names, feed, state)
    except PaddleIpuError as error:
        report.notes.append(f"the operators could not be compared one by one: {error}")
        return
    tolerance = {"rtol": report.rtol, "atol": report.atol}
    report.operators = bisection.drift_table(case.forward, got, expected, **tolerance)
    gradients_alone = any(not row.ok for row in report.gradients) and all(
        row.verdict == AGREES for row in report.operators
    )
    if gradients_alone:
        results = {name: arrays[0] for name, arrays in expected.items()}
        try:
            _compare_derivatives(case, report, feed, results, state)
        except PaddleIpuError as error:
            report.notes.append(f"the operators could not be run by themselves: {error}")


def _one_micro_batch(
    case: Case, names: Sequence[str], feed: Mapping[str, Array], state: State
) -> tuple[Results, Results]:
    """(the IPU's, the CPU's) values of `names`."""
    strategy = _for_one_micro_batch(case.strategy)
    expected = Cpu(case, names, state, as_computed=True).run(feed)
    ipu = Ipu(case, strategy, 1, names, state)
    try:
        return ipu.run(feed), {name: [array] for name, array in expected.items()}
    finally:
        ipu.close()


def _for_one_micro_batch(original: Any) -> Any:
    """The same strategy without pipeline, loop and accumulation."""
    strategy = copy.copy(original)
    strategy._ipu_strategy = copy.deepcopy(original._ipu_strategy)
    strategy.set_pipelining_config(enable_pipelining=False, batches_per_step=1)
    strategy.set_options({"enable_gradient_accumulation": False, "accumulation_factor": 1})
    return strategy


def _compare_derivatives(
    case: Case,
    report: VerificationReport,
    feed: Mapping[str, Array],
    results: State,
    state: State,
) -> None:
    import paddle

    alone = isolate(paddle, case.copy, feed, results, state)
    if alone is None:
        return
    # On one IPU: what was added to the program has no place.
    strategy = _for_one_micro_batch(case.strategy)
    strategy.set_graph_config(
        num_ipus=1,
        is_training=True,
        micro_batch_size=int(strategy._ipu_strategy.snapshot()["micro_batch_size"]),
        enable_manual_shard=False,
    )
    scope = filled_scope(dict(alone.state))
    parts = prepare(alone.program, alone.feed, [], scope, strategy)
    parameters = parts.forward.gradients
    got, expected = _one_micro_batch(parts, list(parameters), parts.feed, parts.state)
    report.derivatives = bisection.derivative_rows(
        case.forward,
        parts.forward,
        {parameters[name]: arrays for name, arrays in got.items()},
        {parameters[name]: arrays for name, arrays in expected.items()},
        rtol=report.rtol,
        atol=report.atol,
    )
