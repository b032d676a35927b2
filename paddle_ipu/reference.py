"""``paddle_ipu.verify``: a program on the IPU beside the same program on Paddle's CPU kernels.

Both sides run copies: of the program, and of the variables in the scope. On a difference one
micro-batch runs again with every forward value fetched, from the CPU's weights at that point, and
the first operator that differs while all it reads agrees is named.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu import backend as backends
from paddle_ipu import bisection
from paddle_ipu import scope as scopes
from paddle_ipu.compiled_program import IpuCompiledProgram
from paddle_ipu.errors import FetchError, NotSupported, PaddleIpuError, VerificationError
from paddle_ipu.isolation import isolate
from paddle_ipu.passes.extract_optimizer import OPTIMIZER_OPS
from paddle_ipu.verification_report import AGREES, Comparison, VerificationReport, compare

Array = np.ndarray[Any, Any]
State = dict[str, Array]
Results = dict[str, list[Array]]
"""Name -> one array for each micro-batch."""

_PARAMETER = "builtin.parameter"


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
        program: a main program built under PIR, for training or inference.
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
        NotSupported: the program draws random numbers, or Paddle's CPU executor cannot do what the
            strategy asks for.
        ValueError: `steps` is less than one.
    """
    import paddle

    if steps < 1:
        raise ValueError(f"verify(steps={steps}): expected at least one step.")
    if not isinstance(program, paddle.pir.Program):
        raise NotSupported(
            f"verify takes a PIR program, got {type(program).__module__}."
            f"{type(program).__name__}. Pass the program that IpuCompiledProgram takes."
        )
    if ipu_strategy is None:
        ipu_strategy = _strategy_for(program, feed)
    case = _prepare(program, feed, fetch_list, scope, ipu_strategy, without_dropout)
    with backends.last_program_stays():
        report = _verify(case, steps, rtol, atol, every_operator)
    if raise_on_mismatch and not report.ok:
        raise VerificationError(f"verify: {report.explanation()}", report)
    return report


@dataclass(frozen=True, slots=True)
class _Case:
    """A copy of what is verified.

    Attributes:
        program: the copy, with a name on every value.
        feed: the feeds of one run, in the dtypes the program declares.
        fetches: names of the user's fetches.
        state: the scope's variables; nobody writes on these arrays.
        turns: micro-batches of a run.
        accumulates: True when several micro-batches share one update.
    """

    program: Any
    feed: Mapping[str, Array]
    fetches: Sequence[str]
    strategy: Any
    state: State
    forward: bisection.Forward
    training: bool
    turns: int
    accumulates: bool

    def micro_batch(self, turn: int) -> dict[str, Array]:
        """The feeds of one micro-batch of a run."""
        return {
            name: array.reshape(self.turns, -1, *array.shape[1:])[turn] if array.ndim else array
            for name, array in self.feed.items()
        }


def _strategy_for(program: Any, feed: Mapping[str, Any]) -> Any:
    import paddle

    ops = program.global_block().ops
    rows = [
        np.shape(feed[op.attrs()["name"]])[0]
        for op in ops
        if op.name() == "pd_op.data"
        and op.attrs()["name"] in feed
        and list(op.result(0).shape)[:1] == [-1]
    ]
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(
        num_ipus=1,
        is_training=any(op.name().rpartition(".")[2] in OPTIMIZER_OPS for op in ops),
        micro_batch_size=int(rows[0]) if rows else 1,
    )
    return strategy


def _prepare(
    program: Any,
    feed: Mapping[str, Any],
    fetch_list: Sequence[Any],
    scope: Any,
    strategy: Any,
    without_dropout: bool,
) -> _Case:
    import paddle

    scope = paddle.static.global_scope() if scope is None else scope
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
    mapping = paddle.pir.IrMapping()
    duplicate = program.clone(mapping)
    rate_name = getattr(program, "lr_name", None)
    if hasattr(duplicate, "lr_scheduler"):
        # With it the executor would write the rate to the global scope, whatever its scope is.
        del duplicate.lr_scheduler
    if without_dropout:
        bisection.switch_dropout_off(duplicate)
    bisection.name_values(duplicate)
    names = {value.id: name for name, value in bisection.named_values(duplicate)}
    fetches = [_fetch_name(item, program, mapping, names) for item in fetch_list]
    forward = bisection.read_forward(duplicate, rate_name, list(feed), fetches, values)
    bisection.check_deterministic(forward)
    return _Case(
        program=duplicate,
        feed=_declared(duplicate, feed),
        fetches=fetches,
        strategy=strategy,
        state=_state(program, duplicate, scope),
        forward=forward,
        training=training,
        turns=turns,
        accumulates=accumulates,
    )


def _fetch_name(item: Any, program: Any, mapping: Any, names: Mapping[int, str]) -> str:
    if isinstance(item, str):
        return item
    if item.get_defining_op().get_parent_block().program != program:
        raise FetchError(
            f"fetch_list holds a variable of another program, made by "
            f"{item.get_defining_op().name()}. Fetch a variable of the program to verify."
        )
    return names[mapping.look_up(item).id]


def _declared(program: Any, feed: Mapping[str, Any]) -> dict[str, Array]:
    """The feeds in the dtype that the program declares; the IPU side checks the rest."""
    arrays = {name: np.asarray(value) for name, value in feed.items()}
    values = bisection.values_of(program)
    for name, array in arrays.items():
        if name in values:
            dtype = str(values[name].dtype).rpartition(".")[2].lower()
            arrays[name] = array.astype(dtype)
    return arrays


def _state(program: Any, duplicate: Any, scope: Any) -> State:
    state: State = {}
    for op in duplicate.global_block().ops:
        attributes = op.attrs()
        persistable = attributes.get("persistable", [False])[0]
        if op.name() == _PARAMETER or (op.name() == "pd_op.data" and persistable):
            name = str(attributes.get("parameter_name") or attributes["name"])
            found = scopes.tensor(scope, name)
            if found is not None:
                state[name] = np.array(scopes.view(found))
            if name == getattr(program, "lr_name", None):
                shape = list(op.result(0).shape)
                state[name] = np.full(shape, program.lr_scheduler(), np.float32)
    return state


def _filled(state: State) -> Any:
    """A new scope with copies of the arrays."""
    import paddle

    scope = paddle.static.Scope()
    for name, array in state.items():
        scopes.write(scope.var(name).get_tensor(), array)
    return scope


def _read(scope: Any, names: Sequence[str]) -> State:
    return {name: np.array(array) for name, array in scopes.read(scope, names).items()}


# -- the two sides ------------------------------------------------------------------------------


class _Ipu:
    """The program on the IPU, on a scope of its own."""

    def __init__(self, case: _Case, strategy: Any, turns: int, fetches: Sequence[str],
                 state: State) -> None:  # fmt: skip
        self._case, self._turns, self._fetches = case, turns, list(fetches)
        self._scope = _filled(state)
        compiled = IpuCompiledProgram(case.program, scope=self._scope, ipu_strategy=strategy)
        self._program = compiled.compile(list(case.feed), self._fetches)
        self._backend = compiled._backend

    def run(self, feed: Mapping[str, Array]) -> Results:
        arrays = self._program.run(feed, self._fetches)
        results: Results = {}
        for name, array in zip(self._fetches, arrays, strict=True):
            results[name] = list(array) if self._turns > 1 else [array]
        return results

    def variables(self, names: Sequence[str]) -> State:
        self._backend.weights_to_host()
        return _read(self._scope, names)

    def close(self) -> None:
        self._backend.detach()


class _Cpu:
    """The program on Paddle's CPU kernels, on a scope of its own; one micro-batch a run."""

    def __init__(
        self, case: _Case, fetches: Sequence[str], state: State, as_computed: bool = False
    ) -> None:
        """Fetches as the executor does; or, `as_computed`, before in-place operators write."""
        import paddle

        self._program = case.program.clone()
        values = bisection.values_of(self._program)
        self._fetches = {name: values[name] for name in fetches}
        bisection.prune(self._program, list(self._fetches.values()), case.training)
        for name, value in self._fetches.items():
            producer = value.get_defining_op()
            if as_computed and bisection.is_overwritten(value) and producer.name() != _PARAMETER:
                with paddle.static.program_guard(self._program):
                    paddle.pir.set_insertion_point_after(producer)
                    self._fetches[name] = paddle.assign(value)
                    paddle.pir.set_insertion_point_to_block_end(self._program.global_block())
        self._declared = {
            op.attrs()["name"]: list(op.result(0).shape)
            for op in self._program.global_block().ops
            if op.name() == "pd_op.data"
        }
        self._executor = paddle.static.Executor(paddle.CPUPlace())
        self._scope = _filled(state)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        arrays = self._executor.run(
            self._program,
            feed={name: array for name, array in feed.items() if name in self._declared},
            fetch_list=list(self._fetches.values()),
            scope=self._scope,
        )
        return dict(zip(self._fetches, (np.array(array) for array in arrays), strict=True))

    def variables(self, names: Sequence[str]) -> State:
        return _read(self._scope, names)

    def restore(self, state: State) -> None:
        for name, array in state.items():
            scopes.write(self._scope.find_var(name).get_tensor(), array)


# -- comparing ----------------------------------------------------------------------------------


def _verify(
    case: _Case, steps: int, rtol: float, atol: float, every_operator: bool
) -> VerificationReport:
    report = VerificationReport(rtol, atol, steps)
    if case.accumulates:
        _check_one_update(case, steps)
        report.notes.append(
            "weights and optimizer state are not compared: Paddle's CPU executor has no gradient "
            "accumulation; every micro-batch ran from the same weights"
        )
    fetches = list(dict.fromkeys([*case.fetches, *case.forward.gradients]))
    updated = {} if case.accumulates else bisection.updated_variables(case.forward)
    ipu = _Ipu(case, case.strategy, case.turns, fetches, case.state)
    cpu = _Cpu(case, fetches, case.state)
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
                cpu.restore(case.state)
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


def _check_one_update(case: _Case, steps: int) -> None:
    values = case.strategy._ipu_strategy.snapshot()
    batches = int(values["batches_per_step"])
    if steps > 1 or batches > 1:
        raise NotSupported(
            "verify compares gradient accumulation over one update only, since Paddle's CPU "
            f"executor has none to follow it with: got steps={steps}, batches_per_step={batches}, "
            f"accumulation_factor={values['accumulation_factor']}. Use steps=1 and "
            "batches_per_step=1, or verify with accumulation_factor=1."
        )


def _compare_operators(case: _Case, report: VerificationReport) -> None:
    """Fills the table, from the first micro-batch with a difference."""
    rows = (*report.fetches, *report.gradients)
    differing = [row.micro_batch for row in rows if row.micro_batch is not None]
    turn = min(differing, default=0)
    state = dict(case.state)
    if turn and not case.accumulates:
        before = _Cpu(case, case.fetches, case.state)
        for earlier in range(turn):
            before.run(case.micro_batch(earlier % case.turns))
        state = before.variables(list(state))
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
    case: _Case, names: Sequence[str], feed: Mapping[str, Array], state: State
) -> tuple[Results, Results]:
    """(the IPU's, the CPU's) values of `names`."""
    strategy = copy.copy(case.strategy)
    strategy._ipu_strategy = copy.deepcopy(case.strategy._ipu_strategy)
    strategy.set_pipelining_config(enable_pipelining=False, batches_per_step=1)
    strategy.set_options({"enable_gradient_accumulation": False, "accumulation_factor": 1})
    expected = _Cpu(case, names, state, as_computed=True).run(feed)
    ipu = _Ipu(case, strategy, 1, names, state)
    try:
        return ipu.run(feed), {name: [array] for name, array in expected.items()}
    finally:
        ipu.close()


def _compare_derivatives(
    case: _Case,
    report: VerificationReport,
    feed: Mapping[str, Array],
    results: State,
    state: State,
) -> None:
    import paddle

    alone = isolate(paddle, case.program, case.forward, feed, results, state)
    if alone is None:
        return
    scope = _filled(dict(alone.state))
    parts = _prepare(alone.program, alone.feed, [], scope, case.strategy, False)
    parameters = parts.forward.gradients
    got, expected = _one_micro_batch(parts, list(parameters), parts.feed, parts.state)
    report.derivatives = bisection.derivative_rows(
        case.forward,
        alone.operands,
        {parameters[name]: arrays for name, arrays in got.items()},
        {parameters[name]: arrays for name, arrays in expected.items()},
        rtol=report.rtol,
        atol=report.atol,
    )
