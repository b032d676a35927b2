"""Print and Assert in blocks act where the block runs, and as often."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import popart_runtime_error
from tests.journeys.training.side_by_side import Pair, build, pair

NN = paddle.static.nn


def _compiled(make: Any) -> Pair:
    return pair(build(make), is_training=False, micro_batch_size=1)


def _printing() -> tuple[list[str], dict[str, Any], Any]:
    x = paddle.static.data("x", [2], "float32")
    out = NN.cond(
        paddle.sum(x) > 0,
        lambda: paddle.static.Print(x * 2.0, message="doubled", print_phase="forward"),
        lambda: x * 1.0,
    )
    return ["x"], {"out": out}, None


def test_a_branch_prints_where_it_runs(capfd: pytest.CaptureFixture[str]) -> None:
    program = _compiled(_printing)
    program.on_ipu({"x": np.array([-1, -2], np.float32)})
    assert "doubled" not in capfd.readouterr().err
    program.on_ipu({"x": np.array([1, 2], np.float32)})
    assert capfd.readouterr().err.count("doubled") == 1


def _printing_loop() -> tuple[list[str], dict[str, Any], Any]:
    x = paddle.static.data("x", [2], "float32")

    def turn(i: Any, y: Any) -> list[Any]:
        return [i + 1, paddle.static.Print(y + 1.0, message="turn", print_phase="forward")]

    start = [paddle.full([1], 0, "int64"), paddle.assign(x)]
    return ["x"], {"out": NN.while_loop(lambda i, y: i < 3, turn, start)[1]}, None


def test_a_loop_prints_in_every_turn(capfd: pytest.CaptureFixture[str]) -> None:
    program = _compiled(_printing_loop)
    capfd.readouterr()
    program.on_ipu({"x": np.array([1, 2], np.float32)})
    assert capfd.readouterr().err.count("turn") == 3


def _asserting() -> tuple[list[str], dict[str, Any], Any]:
    x = paddle.static.data("x", [2], "float32")

    def check() -> None:
        paddle.static.nn.control_flow.Assert(paddle.max(x) < 5.0, [x])

    NN.cond(paddle.sum(x) > 0, check)
    return ["x"], {"out": x * 2.0}, None


def test_a_branch_without_results_asserts_where_it_runs() -> None:
    program = _compiled(_asserting)
    for harmless in ([1, 2], [9, -20]):
        got = program.on_ipu({"x": np.array(harmless, np.float32)})[0]
        np.testing.assert_array_equal(got, np.array(harmless, np.float32) * 2)
    with pytest.raises(
        popart_runtime_error, match=r"Abort Program: the condition of assert .*at .*py"
    ):
        program.on_ipu({"x": np.array([9, 2], np.float32)})
