"""What runs on the CPU although the IPU was asked for is said once."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import paddle
import pytest

from paddle_ipu.runtime import cpu_notice
from tests.unit.dygraph.layers import X, batch, made, steps, strategy


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What is said, from nothing on."""
    cpu_notice.reset()
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        yield caplog
    cpu_notice.reset()


def _told(said: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in said.records if record.name == "paddle_ipu"]


def test_a_program_that_is_not_compiled(said: pytest.LogCaptureFixture) -> None:
    paddle.enable_static()
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup):
        x = paddle.static.data("x", [2, 3])
        y = paddle.static.nn.fc(x, 2)
    feed = {"x": np.ones([2, 3], "float32")}
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(paddle.IPUPlace())
        executor.run(startup)
        paddle.static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=[y])
        assert not _told(said)
        executor.run(program, feed=feed, fetch_list=[y])
        executor.run(program, feed, [y])
    (message,) = _told(said)
    assert "not compiled for the IPU, and runs it on the CPU" in message
    assert "paddle.static.IpuCompiledProgram(program, ipu_strategy=strategy).compile" in message


def test_layers_without_a_strategy(said: pytest.LogCaptureFixture) -> None:
    stock = paddle.nn.Layer.__call__
    layer = made()
    layer(paddle.to_tensor(X))
    paddle.set_device("ipu")
    assert not _told(said)
    layer(paddle.to_tensor(X))
    layer(paddle.to_tensor(X))
    (message,) = _told(said)
    assert message.startswith("Classifier runs on the CPU, as all of dynamic mode")
    assert "paddle.jit.to_static" in message
    assert paddle.nn.Layer.__call__ is stock


def test_a_step_that_trains_nothing_on_the_ipu(said: pytest.LogCaptureFixture) -> None:
    paddle.set_device("ipu")
    layer, converted = made(), paddle.jit.to_static(made())
    registered = strategy()
    on_cpu, on_ipu = (
        paddle.optimizer.SGD(0.1, parameters=each.parameters()) for each in (layer, converted)
    )
    steps(converted, on_ipu, [8], loop=True)
    assert not _told(said)
    steps(layer, on_cpu, [8, 8], loop=True)
    (message,) = _told(said)
    assert "no layer on the IPU has" in message
    assert "paddle.jit.to_static" in message
    registered.release_patch()


def test_nothing_is_said_where_the_ipu_computes(said: pytest.LogCaptureFixture) -> None:
    stock = paddle.nn.Layer.__call__
    paddle.set_device("ipu")
    layer = paddle.jit.to_static(made())
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    strategy(optimizer)
    steps(layer, optimizer, [8, 8], loop=True)
    # A loss outside of the layer is computed in dynamic mode, and that is as it should be.
    layer.eval()
    paddle.nn.CrossEntropyLoss()(layer(paddle.to_tensor(X)), batch(8)[1])
    assert not _told(said)
    assert paddle.nn.Layer.__call__ is stock


def test_another_device_ends_the_watch(said: pytest.LogCaptureFixture) -> None:
    stock = paddle.nn.Layer.__call__
    paddle.set_device("ipu")
    paddle.set_device("cpu")
    assert paddle.nn.Layer.__call__ is stock
    made()(paddle.to_tensor(X))
    assert not _told(said)
