"""A row of the operator case table as a Paddle program, and compiled, by public names only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

import paddle_ipu
from tests.operators import gpu_operator
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

    def scope(self) -> Any:
        """A new scope that holds the parameters."""
        scope = paddle.static.Scope()
        for name, array in self.parameters.items():
            scope.var(name).get_tensor().set(array, paddle.CPUPlace())
        return scope


@contextmanager
def static_mode() -> Iterator[None]:
    """Static mode inside, and afterwards the mode before."""
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
        static_mode(),
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


def compile_case(built: BuiltCase, **options: Any) -> Any:
    """The case's program, compiled for the IPU Model."""
    with static_mode():
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=built.training, micro_batch_size=1)
        strategy.set_options(options)
        compiler = paddle.static.IpuCompiledProgram(
            built.program, scope=built.scope(), ipu_strategy=strategy
        )
        return compiler.compile(list(built.feed), list(built.fetches.values()))
