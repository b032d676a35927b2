"""Element-wise layers of ``paddle.fluid`` with operands of two types of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates

X = np.float32([0.1, -2.7, 3.0, 0.0])


def _on_ipu(build: Any) -> list[Any]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        fetches = build(paddle.static.data("x", [4], "float32"))
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=4)
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], fetches)
    executor = paddle.static.Executor(paddle.IPUPlace())
    found: list[Any] = executor.run(program, feed={"x": X}, fetch_list=fetches)
    return found


@pytest.mark.usefixtures("static_mode")
def test_the_result_has_the_type_of_the_first_operand() -> None:
    layers = paddle.fluid.layers

    def build(x: Any) -> list[Any]:
        half = paddle.cast(x, "float16")
        three = layers.fill_constant([1], "float32", 3.3)
        return [
            layers.elementwise_sub(half, three),
            layers.elementwise_mul(half, three),
            layers.elementwise_add(x, half),
        ]

    half, three = X.astype(np.float16), np.float16(3.3)
    for found, expected in zip(
        _on_ipu(build), (half - three, half * three, X + half.astype(np.float32)), strict=True
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
