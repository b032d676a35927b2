"""Runs a row of the operator case table on Paddle's CPU executor and on the IPU Model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import paddle

from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import programs
from tests.operators.built_case import BuiltCase, build_case, compile_case, static_mode
from tests.operators.compare import assert_same
from tests.operators.operator_case import Array, OperatorCase
from tools.program_forms.default_translation import translate_by_default


def operators_of(built: BuiltCase) -> set[str]:
    """The phi names of the program's operators."""
    return {str(node.op_type) for node in dialect.walk(programs.read(built.program))}


def run_on_cpu(built: BuiltCase) -> dict[str, Array]:
    """What Paddle's CPU executor gives for each fetch."""
    with static_mode():
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


def run_on_ipu_model(built: BuiltCase, **options: Any) -> dict[str, Array]:
    """What the IPU Model gives for each fetch, with some strategy options."""
    compiled = compile_case(built, **options)
    with static_mode():
        results = compiled.run(dict(built.feed), list(built.fetches.values()))
    return dict(zip(built.fetches, results, strict=True))


def run_case(case: OperatorCase) -> None:
    """Compares every output and gradient of a case.

    Raises:
        AssertionError: the program lacks the operator, or a result differs.
    """
    built = build_case(case)
    operators = operators_of(built)
    if not operators & _forms(case.op):
        raise AssertionError(f"{case.name}: the program has {sorted(operators)}, not {case.op}")
    got = run_on_ipu_model(built)
    if case.check is not None:
        case.check(list(got.values()))
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

    The program is that of a compile for the IPU Model, with integers of 64 bits. Constants and
    casts from one width of integers to another are left out, as any translator may write one, and
    what keeps states or has no result.
    """
    built = build_case(case)
    with static_mode():
        translation = translate_by_default(
            built.program,
            list(built.feed),
            list(built.fetches.values()),
            lambda name: built.parameters[name],
            training=built.training,
            in_64_bits=True,
        ).translation
    found: dict[str, set[str]] = {}
    for node in translation.builder.model.graph:
        left_out = node.op_type in ("Constant", "CopyVarUpdate") or _is_of_width(node)
        if node.outputs and not left_out:
            origin = translation.origins[str(node.outputs[0].name)]
            kind = f"{node.domain}.{node.op_type}".removeprefix("ai.").removeprefix(".")
            found.setdefault(str(origin.op_type).removesuffix("_"), set()).add(kind)
    return found


def _is_of_width(node: ir.Node) -> bool:
    """Whether a node makes integers of 64 bits of 32, or of 32 those of 64."""
    values = (*node.inputs, *node.outputs)
    return node.op_type == "Cast" and {value.dtype for value in values if value} == {
        ir.DataType.INT32,
        ir.DataType.INT64,
    }
