"""Operators that do something on the host: PrintTensor and Abort."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception, popart_runtime_error
from tests.unit.sessions.session_programs import builder, device, flow, infer, options, run, train


def test_integers_are_printed_with_their_tensors_id(capfd: pytest.CaptureFixture[str]) -> None:
    make = builder()
    a, b = (make.addInputTensor("INT32", [3], name) for name in "ab")
    first = make.aiOnnx.add([a, b])
    printed = make.aiGraphcore.printtensor([first])
    second = make.aiOnnx.add([a, printed])
    out = make.aiGraphcore.printtensor([second])
    session = infer(make.model, {out: "All"})
    capfd.readouterr()
    got = run(session, {"a": np.array([1, 2, 3], np.int32), "b": np.array([4, 5, 6], np.int32)})
    np.testing.assert_array_equal(got[out], [6, 9, 12])
    lines = capfd.readouterr().err.splitlines()
    assert sorted(lines) == ["Add:0/1: [ 6  9 12]", "Add:0: [5 7 9]"]


def test_a_print_whose_result_nobody_reads(capfd: pytest.CaptureFixture[str]) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 2], "x")
    make.aiGraphcore.printtensor([x], title="seen", digits=3)
    y = make.aiOnnx.neg([x])
    session = infer(make.model, {y: "All"})
    capfd.readouterr()
    run(session, {"x": np.array([[1, 2], [-3, 4.5]], np.float32)})
    assert capfd.readouterr().err == "seen: [[ 1.00  2.00]\n [-3.00  4.50]]\n"


class Weighted:
    """``loss = sum of 0.1 |x w|`` with w printed."""

    def __init__(self, **arguments: Any) -> None:
        self.builder = builder()
        make = self.builder
        x = make.addInputTensor("FLOAT", [2, 2], "x")
        w = make.addInitializedInputTensor(np.array([[1, 2], [0, -1]], np.float32), "w")
        printed = make.aiGraphcore.printtensor([w], **arguments)
        product = make.aiOnnx.mul([x, printed])
        self.loss = make.aiGraphcore.l1loss([product], 0.1, popart.ReductionType.Sum)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, ["w", "Gradient___w"]),
        ({"title": "foo"}, ["foo", "foo_gradient"]),
        ({"print_gradient": 0}, ["w"]),
    ],
)
def test_training_prints_the_gradient_too(
    arguments: dict[str, Any], names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    program = Weighted(**arguments)
    session = train(program, popart.SGD({"defaultLearningRate": (0.1, False)}))
    capfd.readouterr()
    run(session, {"x": np.array([[1, 2], [3, 4]], np.float32)})
    printed = re.sub(r"\s+", " ", capfd.readouterr().err).strip()
    values = {
        "w": "[[ 1.0000000 2.0000000] [ 0.0000000 -1.0000000]]",
        "gradient": "[[ 0.1000000 0.2000000] [ 0.0000000 -0.4000000]]",
    }
    expected = [f"{name}: {values['gradient' if 'radient' in name else 'w']}" for name in names]
    assert printed == " ".join(expected)


def test_each_micro_batch_prints(capfd: pytest.CaptureFixture[str]) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [1], "x")
    y = make.aiGraphcore.printtensor([x], digits=2)
    session = infer(make.model, {y: "All"}, batches=3)
    capfd.readouterr()
    run(session, {"x": np.array([[1], [2], [3]], np.float32)})
    assert sorted(capfd.readouterr().err.split("\n")[:-1]) == ["x: [1.0]", "x: [2.0]", "x: [3.0]"]


def test_long_axes_are_cut_and_brackets_can_be_chosen(capfd: pytest.CaptureFixture[str]) -> None:
    make = builder()
    x = make.addInputTensor("INT32", [12], "x")
    y = make.aiGraphcore.printtensor(
        [x], summariseThreshold=10, edgeItems=2, separator=",", openBracket="(", closeBracket=")"
    )
    session = infer(make.model, {y: "All"})
    capfd.readouterr()
    run(session, {"x": np.arange(12, dtype=np.int32)})
    assert capfd.readouterr().err == "x: ( 0, 1,...,10,11)\n"


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [(0, 1e-6, "1.000e-06"), (1, 0.5, "0.500"), (2, 0.5, "5.000e-01"), (3, 7.0, "7")],
)
def test_formats_of_floats(
    form: int, value: float, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [1], "x")
    y = make.aiGraphcore.printtensor([x], digits=4, floatFormat=form)
    session = infer(make.model, {y: "All"})
    capfd.readouterr()
    run(session, {"x": np.array([value], np.float32)})
    assert capfd.readouterr().err == f"x: [{text}]\n"


def test_an_abort_stops_every_run() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    y = make.aiOnnx.abs([x])
    assert make.aiGraphcore.abort([]) is None
    with pytest.raises(popart_runtime_error, match="^Abort Program$"):
        run(infer(make.model, {y: "All"}), {"x": np.ones(2, np.float32)})


def test_a_condition_decides_about_an_abort() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [1], "x")
    limit = make.aiOnnx.constant(np.array([3], np.float32))
    make.aiGraphcore.abort([make.aiOnnx.greater([x, limit])])
    y = make.aiOnnx.neg([x])
    session = popart.InferenceSession(
        make.model, flow(1, {y: "All"}), device(), userOptions=options()
    )
    session.prepareDevice()
    assert run(session, {"x": np.array([2], np.float32)})[y] == -2
    with pytest.raises(popart_runtime_error, match="^Abort Program$"):
        run(session, {"x": np.array([4], np.float32)})
    many = make.addInputTensor("BOOL", [2])
    with pytest.raises(popart_exception, match="the condition must be one boolean, got"):
        make.aiGraphcore.abort([many])
