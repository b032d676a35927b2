"""extract_forward: writes to weights and states, and those that no device makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.extract_forward import ExtractForward
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pass_base import Compilation

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
def test_a_count_in_the_program_is_carried(compilation_of: Read, is_training: bool) -> None:
    loss = _loss()
    twice = paddle.increment(_counter()) * 2.0
    paddle.optimizer.SGD(0.1).minimize(loss)
    compilation = compilation_of(["x"], [loss, twice], is_training=is_training)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    assert list(compilation.state_writes()) == ["count"]
    new = compilation.value(compilation.state_writes()["count"])
    assert new is not None
    assert str(new.producer().op_type).rstrip("_") == "increment"
    assert [use.node.op_type for use in new.uses()] == ["scale"]


def test_who_reads_a_variable_after_a_write_reads_what_was_written(compilation_of: Read) -> None:
    count = _counter()
    before = count * 2.0
    paddle.increment(count)
    paddle.increment(count)
    after = count * 3.0
    compilation = compilation_of(["x"], [before, after, count])
    ExtractForward().run(compilation)
    writers = [node.op_type.rstrip("_") for node in _chain(compilation.graph.outputs[1])]
    assert writers == ["scale", "increment", "increment"]
    assert [node.op_type for node in _chain(compilation.graph.outputs[0])] == ["scale"]
    assert compilation.writes["count"] == compilation.graph.outputs[2].name


def _chain(value: Any) -> list[Any]:
    """The nodes that made a value, from the last to the first, by their first inputs."""
    found = []
    while value.producer() is not None:
        found.append(value.producer())
        value = value.producer().inputs[0]
    return found


def test_a_write_to_what_the_optimizer_trains_is_refused(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    weight = paddle.create_parameter([3], "float32", name="weight")
    loss = (x * weight).mean()
    paddle.optimizer.SGD(0.1).minimize(loss)
    paddle.assign(paddle.zeros([3]), output=weight)
    compilation = compilation_of(["x"], [loss], is_training=True)
    ExtractOptimizer().run(compilation)
    with pytest.raises(
        NotSupported,
        match=r"assign_out_ at .* writes 'weight', which the optimizer updates too",
    ):
        ExtractForward().run(compilation)


def test_an_average_of_weights_beside_the_optimizer_is_refused(compilation_of: Read) -> None:
    loss = _loss()
    paddle.optimizer.SGD(0.1).minimize(loss)
    paddle.incubate.ModelAverage(0.15, min_average_window=2, max_average_window=4).minimize(loss)
    compilation = compilation_of(["x"], [loss], is_training=True)
    ExtractOptimizer().run(compilation)
    with pytest.raises(
        NotSupported, match=r"average_accumulates_? at .* reads linear_\d+\.[wb]_0 after"
    ):
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
