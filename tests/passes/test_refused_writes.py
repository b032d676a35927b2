"""extract_forward and extract_optimizer: writes to weights and states that no device makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.extract_forward import ExtractForward
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pipeline import Compilation

Read = Callable[..., Compilation]


def _loss() -> Any:
    return paddle.nn.Linear(3, 1)(paddle.static.data("x", [2, 3], "float32")).mean()


def _counter() -> Any:
    return paddle.static.create_parameter(
        [1],
        "float32",
        attr=paddle.ParamAttr(name="count", trainable=False),
        default_initializer=paddle.nn.initializer.Constant(0.0),
    )


@pytest.mark.parametrize("is_training", [False, True])
def test_a_count_in_the_program_is_refused(compilation_of: Read, is_training: bool) -> None:
    loss = _loss()
    paddle.increment(_counter())
    paddle.optimizer.SGD(0.1).minimize(loss)
    compilation = compilation_of(["x"], [loss], is_training=is_training)
    ExtractOptimizer().run(compilation)
    with pytest.raises(
        NotSupported,
        match=r"increment_ at .*test_refused_writes\.py:\d+ writes 'count', which the program "
        r"keeps from run to run\. On an IPU only .*: keep counts and averages in Python",
    ):
        ExtractForward().run(compilation)


def test_an_average_of_weights_beside_the_optimizer_is_refused(compilation_of: Read) -> None:
    loss = _loss()
    paddle.optimizer.SGD(0.1).minimize(loss)
    paddle.incubate.ModelAverage(0.15, min_average_window=2, max_average_window=4).minimize(loss)
    compilation = compilation_of(["x"], [loss], is_training=True)
    ExtractOptimizer().run(compilation)
    with pytest.raises(NotSupported, match=r"average_accumulates_? at .* writes '.*sum_1_0'"):
        ExtractForward().run(compilation)


def test_the_statistics_of_a_batch_norm_in_test_mode_stay(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    norm = paddle.nn.BatchNorm1D(3)
    norm.eval()
    compilation = compilation_of(["x"], [norm(x)])
    ExtractForward().run(compilation)
    assert "batch_norm" in {str(node.op_type).rstrip("_") for node in compilation.graph}


def test_a_parameter_that_is_updated_twice_is_refused(compilation_of: Read) -> None:
    loss = _loss()
    optimizer = paddle.optimizer.SGD(0.1)
    optimizer.minimize(loss)
    optimizer.minimize(loss)
    compilation = compilation_of(["x"], [loss], is_training=True)
    with pytest.raises(
        NotSupported,
        match=r"parameter 'linear_\d+\.[wb]_0' is updated more than once a step\..* and call "
        r"minimize once",
    ):
        ExtractOptimizer().run(compilation)
