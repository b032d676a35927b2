"""Runs a row of the operator case table on Paddle's CPU executor and on the IPU Model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

import paddle_ipu
from paddle_ipu.compiler.translated import lower_program
from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import programs
from tests.operators import gpu_operator
from tests.operators.compare import assert_same
from tests.operators.operator_case import Array, OperatorCase, RefusedCase

_LEARNING_RATE = np.asarray(0.5, np.float32)


@dataclass(frozen=True, slots=True)
class BuiltCase:
    """A case as a Paddle program.

    Attributes:
        program: the program, with backward and SGD where a gradient is asked for.
        feed: name -> array.
        parameters: name -> value at the start, the learning rate included.
        fetches: what to compare -> its variable.
    """

    program: Any
    feed: Mapping[str, Array]
    parameters: Mapping[str, Array]
    fetches: Mapping[str, Any]

    @property
    def training(self) -> bool:
        """True when the program has an optimizer."""
        return bool(self.parameters)

    def operators(self) -> set[str]:
        """The phi names of the program's operators."""
        return {str(node.op_type) for node in dialect.walk(programs.read(self.program))}

    def scope(self) -> Any:
        """A new scope that holds the parameters."""
        scope = paddle.static.Scope()
        for name, array in self.parameters.items():
            scope.var(name).get_tensor().set(array, paddle.CPUPlace())
        return scope


@contextmanager
def _static_mode() -> Iterator[None]:
    dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        yield
    finally:
        if dynamic:
            paddle.disable_static()


def lacks(case: OperatorCase | RefusedCase) -> str:
    """What the Paddle that is installed lacks for the case, "" where it can run."""
    version = str(paddle.__version__)
    if case.since is None or case.since.holds(version):
        return ""
    return f"Paddle {version}: {case.since.because} before {case.since.version}"


def build_case(case: OperatorCase | RefusedCase) -> BuiltCase:
    """The case's Paddle program.

    Inputs with a gradient become parameters. The loss is the sum of all floating outputs, each
    times a fed weight, so that the gradient differs from element to element.
    """
    paddle_ipu.activate()
    with gpu_operator.building() if case.gpu_only else nullcontext():
        return _build(case)


def _build(case: OperatorCase | RefusedCase) -> BuiltCase:
    program, startup = paddle.static.Program(), paddle.static.Program()
    wanted = case.gradient if isinstance(case, OperatorCase) else ()
    feed = {name: array for name, array in case.inputs.items() if name not in wanted}
    parameters = {name: case.inputs[name] for name in wanted}
    with (
        _static_mode(),
        paddle.static.program_guard(program, startup),
        paddle.utils.unique_name.guard(),
    ):
        arguments = [
            paddle.create_parameter(list(array.shape), array.dtype.name, name=name)
            if name in wanted
            else paddle.static.data(name, list(array.shape), array.dtype.name)
            for name, array in case.inputs.items()
        ]
        outputs = case.build(*arguments)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        fetches = {f"output {at}": output for at, output in enumerate(outputs)}
        if wanted:
            fetches.update(_gradients(outputs, feed, wanted, case.gpu_only))
            parameters["learning_rate_0"] = _LEARNING_RATE
    return BuiltCase(program, feed, parameters, fetches)


def _gradients(
    outputs: Sequence[Any], feed: dict[str, Array], wanted: Sequence[str], gpu_only: bool
) -> dict[str, Any]:
    weighted_sum = gpu_operator.weighted_sum if gpu_only else lambda x, w: paddle.sum(x * w)
    add_all = gpu_operator.add_all if gpu_only else paddle.add_n
    rng = np.random.default_rng(7)
    terms = []
    for at, output in enumerate(outputs):
        dtype = str(output.dtype).rpartition(".")[2].lower()
        if dtype.startswith("float") and not output.stop_gradient:
            name = f"cotangent_{at}"
            feed[name] = rng.uniform(0.5, 2.0, list(output.shape)).astype(dtype)
            weight = paddle.static.data(name, list(output.shape), dtype)
            terms.append(weighted_sum(output, weight))
    loss = terms[0] if len(terms) == 1 else add_all(terms)
    pairs = paddle.optimizer.SGD(_LEARNING_RATE.item()).minimize(loss)[1]
    gradients = {parameter.name: gradient for parameter, gradient in pairs}
    return {f"gradient of {name}": gradients[name] for name in wanted}


def run_on_cpu(built: BuiltCase) -> dict[str, Array]:
    """What Paddle's CPU executor gives for each fetch."""
    with _static_mode():
        results = paddle.static.Executor(paddle.CPUPlace()).run(
            built.program,
            feed=dict(built.feed),
            fetch_list=list(built.fetches.values()),
            scope=built.scope(),
        )
    return dict(zip(built.fetches, results, strict=True))


def run_oracle(case: OperatorCase, built: BuiltCase) -> dict[str, Array]:
    """What the case's own oracle gives for each fetch."""
    outputs = _outputs_of(case, case.inputs)
    expected = {f"output {at}": np.asarray(output) for at, output in enumerate(outputs)}
    wide = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array
        for name, array in case.inputs.items()
    }
    for name in case.gradient:
        expected[f"gradient of {name}"] = _central_differences(case, built, wide, name)
    return expected


def _outputs_of(case: OperatorCase, inputs: Mapping[str, Array]) -> Sequence[Any]:
    assert case.oracle is not None
    outputs = case.oracle(*inputs.values())
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]


_STEP = 1e-5


def _central_differences(
    case: OperatorCase, built: BuiltCase, inputs: Mapping[str, Array], name: str
) -> Array:
    """The gradient of the case's loss: the fed weights' sum of outputs, in float64."""

    def loss(array: Array) -> float:
        outputs = _outputs_of(case, {**inputs, name: array})
        return sum(
            float(np.sum(np.asarray(output) * built.feed[f"cotangent_{at}"].astype(np.float64)))
            for at, output in enumerate(outputs)
            if f"cotangent_{at}" in built.feed
        )

    gradient = np.zeros(inputs[name].shape)
    for at in np.ndindex(gradient.shape):
        step = np.zeros(gradient.shape)
        step[at] = _STEP
        gradient[at] = (loss(inputs[name] + step) - loss(inputs[name] - step)) / (2 * _STEP)
    return gradient.astype(case.inputs[name].dtype)


def compile_case(built: BuiltCase, **options: Any) -> Any:
    """The case's program, compiled for the IPU Model."""
    with _static_mode():
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=built.training, micro_batch_size=1)
        strategy.set_options(options)
        compiler = paddle.static.IpuCompiledProgram(
            built.program, scope=built.scope(), ipu_strategy=strategy
        )
        return compiler.compile(list(built.feed), list(built.fetches.values()))


def run_on_ipu_model(built: BuiltCase, **options: Any) -> dict[str, Array]:
    """What the IPU Model gives for each fetch, with some strategy options."""
    compiled = compile_case(built, **options)
    with _static_mode():
        results = compiled.run(dict(built.feed), list(built.fetches.values()))
    return dict(zip(built.fetches, results, strict=True))


def run_case(case: OperatorCase) -> None:
    """Compares every output and gradient of a case.

    Raises:
        AssertionError: the program lacks the operator, or a result differs.
    """
    built = build_case(case)
    operators = built.operators()
    if not operators & _forms(case.op):
        raise AssertionError(f"{case.name}: the program has {sorted(operators)}, not {case.op}")
    got = run_on_ipu_model(built)
    if case.judge is not None:
        case.judge(list(got.values()))
        return
    expected = run_on_cpu(built) if case.oracle is None else run_oracle(case, built)
    for what, array in expected.items():
        assert_same(
            got=got[what], expected=array, what=f"{case.name}, {what}", tolerance=case.tolerance
        )


def _forms(op: str) -> set[str]:
    """The operator's name, and those of its plain and its in-place form."""
    plain = op.removesuffix("_")
    return {plain, f"{plain}_"}


def emitted_operators(case: OperatorCase) -> dict[str, set[str]]:
    """Phi name -> the PopART operators its nodes became, as ``domain.Type`` without ``ai.onnx``.

    Constants are left out, as any translator may write one, and what keeps states or has no
    result.
    """
    built = build_case(case)
    with _static_mode():
        translation = lower_program(
            built.program,
            list(built.feed),
            list(built.fetches.values()),
            lambda name: built.parameters[name],
            training=built.training,
        ).translation
    found: dict[str, set[str]] = {}
    for node in translation.builder.model.graph:
        if node.outputs and node.op_type not in ("Constant", "CopyVarUpdate"):
            origin = translation.origins[str(node.outputs[0].name)]
            kind = f"{node.domain}.{node.op_type}".removeprefix("ai.").removeprefix(".")
            found.setdefault(str(origin.op_type).removesuffix("_"), set()).add(kind)
    return found
