"""Patterns that are off, where PopART has no code for what they would replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.patterns import ALL_NAMES
from tests.unit.sessions.session_programs import builder, device, flow, infer, run


def _without(*names: str) -> popart.Patterns:
    return popart.Patterns(sorted(ALL_NAMES - {*names})).enableRuntimeAsserts(False)


def _trained(
    op: str, *, patterns: popart.Patterns | None, weights: Sequence[int] = (0,), inputs: int = 1,
    shape: Sequence[int] = (2, 2), excluded: Sequence[str] = (), **attributes: Any,
) -> popart.TrainingSession:  # fmt: skip
    """A session whose loss is the sum of an operator of fed inputs and of trained ones."""
    make = builder()
    names = [
        make.addInitializedInputTensor(np.full(shape, 0.5, np.float32), f"w{at}")
        if at in weights
        else make.addInputTensor(popart.TensorInfo("FLOAT", list(shape)), f"x{at}")
        for at in range(inputs)
    ]
    domain = make.aiGraphcore if hasattr(make.aiGraphcore, op) else make.aiOnnxOpset11
    out = getattr(domain, op)(names, **attributes)
    out = out if isinstance(out, str) else out[0]
    if excluded:
        make.excludePatterns(out, excluded)
    loss = make.aiGraphcore.identityloss([out], popart.ReductionType.Sum)
    return popart.TrainingSession(
        make.getModelProto(), flow(1, {loss: "All"}), loss, popart.ConstSGD(0.1), device(),
        patterns=patterns,
    )  # fmt: skip


LEFT = (
    "Could not create opx for 'ai.graphcore.{}:1'. This op should have been removed by pattern {}"
)
SAID = '{} should be optimised out, "{}" pattern is required'

CASES = [
    ("abs", 1, 0, "AbsGradOp", LEFT.format("AbsGrad", "AbsGradOp")),
    ("cos", 1, 0, "CosGradOp", LEFT.format("CosGrad", "CosGradOp")),
    ("sin", 1, 0, "SinGradOp", SAID.format("SinGradOp", "SinGradOp")),
    ("log", 1, 0, "LogGradOp", SAID.format("LogGradOp", "LogGradOp")),
    ("sqrt", 1, 0, "SqrtGradOp", LEFT.format("SqrtGrad", "SqrtGradOp")),
    ("expm1", 1, 0, "Expm1GradOp", LEFT.format("Expm1Grad", "Expm1GradOp")),
    ("mul", 2, 1, "MulArgGradOp", SAID.format("MulArg1GradOp", "MulArgGradOp")),
    ("div", 2, 0, "DivArg0GradOp", SAID.format("DivArg0Grad", "DivArg0Grad")),
    ("pow", 2, 1, "PowArg1GradOp", SAID.format("PowArg1Grad", "PowArg1GradOp")),
    ("sub", 2, 1, "SubtractArg1GradOp", LEFT.format("SubArg1Grad", "SubtractArg1GradOp")),
    ("atan2", 2, 1, "Atan2Arg1GradOp", LEFT.format("Atan2Arg1Grad", "Atan2Arg1GradOp")),
    ("matmul", 2, 0, "MatMulLhsGradOp", LEFT.format("MatMulLhsGrad", "MatMulLhsGradOp")),
    ("matmul", 2, 1, "MatMulRhsGradOp", LEFT.format("MatMulRhsGrad", "MatMulRhsGradOp")),
]


@pytest.mark.parametrize(("op", "inputs", "weight", "pattern", "message"), CASES)
def test_a_gradient_that_only_a_pattern_makes(
    op: str, inputs: int, weight: int, pattern: str, message: str
) -> None:
    off = _without(pattern)
    for patterns, excluded in ((off, ()), (None, (pattern,))):
        session = _trained(
            op, patterns=patterns, weights=[weight], inputs=inputs, excluded=excluded
        )
        with pytest.raises(popart_exception) as error:
            session.prepareDevice()
        assert str(error.value).startswith(message)
    if inputs == 2 and op != "mul":
        # Nothing needs the other gradient.
        _trained(op, patterns=off, weights=[1 - weight], inputs=2).prepareDevice()


def test_a_split_needs_one_of_two_patterns() -> None:
    split: dict[str, Any] = {"axis": 0, "num_outputs": 2}
    for names in (("SplitOp",), ("SplitGradOpToConcat",)):
        _trained("split", patterns=_without(*names), **split).prepareDevice()
    session = _trained("split", patterns=_without("SplitOp", "SplitGradOpToConcat"), **split)
    with pytest.raises(popart_exception, match="opx for 'ai.graphcore.SplitGrad:1'"):
        session.prepareDevice()


def test_an_operator_that_only_a_pattern_replaces() -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
    out = make.aiOnnxOpset11.cosh([x])
    session = popart.InferenceSession(
        make.getModelProto(), flow(1, {out: "All"}), device(), patterns=_without("CoshOp")
    )
    with pytest.raises(popart_exception, match="opx for 'ai.onnx.Cosh:9'.* by pattern CoshOp"):
        session.prepareDevice()
    np.testing.assert_allclose(
        run(infer(make.model, {out: "All"}), {"x": np.ones(2, np.float32)})[out], np.cosh([1, 1]),
        rtol=1e-6,
    )  # fmt: skip


def test_other_patterns_change_nothing() -> None:
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    results = []
    for patterns in (popart.Patterns(popart.PatternsLevel.Minimal), None):
        session = _trained("matmul", patterns=patterns, weights=[1], inputs=2)
        session.prepareDevice()
        session.weightsFromHost()
        results.append([run(session, {"x0": x}) for _ in range(2)])
    for one, other in zip(*results, strict=True):
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name])
