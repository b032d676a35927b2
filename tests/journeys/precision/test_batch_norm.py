"""Batch normalisation and counts in half programs: what is kept from run to run is float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.training.side_by_side import (
    Built,
    build,
    copied,
    distance,
    initialised,
    pair,
    read,
    variables,
)

pytestmark = [
    pytest.mark.usefixtures("static_mode"),
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
]


def _network() -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [8, 3, 5], "float32")
        y = paddle.nn.Linear(5, 2)(paddle.nn.BatchNorm1D(3)(x))
        count = paddle.static.create_parameter(
            [1], "float32", attr=paddle.ParamAttr(name="count", trainable=False)
        )
        paddle.increment(count)
        loss = paddle.mean(y * y)
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return ["x"], {"loss": loss, "count": count}, None

    return build(make)


def _x(seed: int) -> dict[str, np.ndarray]:
    array = np.random.RandomState(seed).standard_normal((8, 3, 5)) * 30 + 5
    return {"x": array.astype(np.float16).astype(np.float32)}


def test_running_statistics_of_a_half_program_are_those_of_float32() -> None:
    both = pair(_network(), {"enable_fp16": True})
    start = read(both.ipu, "count")
    for step in range(3):
        both.step(_x(step))
    both.weights_to_host()
    statistics = [n for n in both.built.parameters if "norm" in n and n.endswith(("_1", "_2"))]
    assert len(statistics) == 2
    for name in statistics:
        assert read(both.ipu, name).dtype == np.float32
        # The batches are numbers of float16, and no half is in the way of the statistics.
        assert distance(read(both.ipu, name), read(both.cpu, name)) <= 1e-6, name
    for name in both.built.parameters:
        if name.endswith("_0") and name != "learning_rate_0":
            assert distance(read(both.ipu, name), read(both.cpu, name)) <= 1e-2, name
    np.testing.assert_allclose(read(both.ipu, "count"), start + 3, rtol=1e-6)


def test_a_count_of_a_half_program_goes_past_2048() -> None:
    built = _network()
    scope = initialised(built)
    scope.find_var("count").get_tensor().set(np.full(1, 2048, np.float32), paddle.CPUPlace())
    ipu = copied(scope, variables(built.main))
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True)
    strategy.set_precision_config(enable_fp16=True)
    compiler = paddle.static.IpuCompiledProgram(built.main, scope=ipu, ipu_strategy=strategy)
    program = compiler.compile(["x"], built.fetches)
    _, count = paddle.static.Executor(paddle.IPUPlace()).run(
        program, feed=_x(0), fetch_list=built.fetches
    )
    np.testing.assert_array_equal(count, [2049])
