"""What operators without a result do on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import popart_runtime_error
from tests.operators.built_case import build_case
from tests.operators.operator_case import OperatorCase
from tests.operators.run_case import run_on_ipu_model


def _asserting(x: Any) -> Any:
    paddle.static.nn.control_flow.Assert((x > 0.0).all(), [x])
    return x * 2


def _run(build: Any, *values: float) -> np.ndarray:
    case = OperatorCase("assert", build, {"x": np.asarray(values, np.float32)})
    return run_on_ipu_model(build_case(case))["output 0"]


def test_a_true_condition_lets_the_program_run() -> None:
    np.testing.assert_array_equal(_run(_asserting, 1.0, 2.0), [2.0, 4.0])


def test_a_false_condition_stops_it() -> None:
    with pytest.raises(
        popart_runtime_error,
        match=r"^Abort Program: the condition of assert .*test_effects\.py:\d+ is false\. To see",
    ):
        _run(_asserting, 1.0, -2.0)


def test_a_tensor_is_printed_with_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    got = _run(lambda x: paddle.static.Print(x, message="values of x") + 1.0, 0.5, -2.0)
    np.testing.assert_array_equal(got, [1.5, -1.0])
    written = capsys.readouterr().err
    assert "values of x" in written and "0.5" in written and "-2" in written
