"""bind_micro_batch, delete_scale, extract_forward: structure before and after, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.errors import FetchError, InvalidProgramError, NotSupported
from paddle_ipu.frontend import programs
from paddle_ipu.passes.bind_micro_batch import BindMicroBatch
from paddle_ipu.passes.delete_scale import DeleteScale
from paddle_ipu.passes.extract_forward import ExtractForward
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pass_base import Compilation

Read = Callable[..., Compilation]
Types = Callable[[Compilation], list[str]]


def test_the_micro_batch_takes_the_place_of_a_dynamic_first_dimension(compilation_of: Read) -> None:
    x = paddle.static.data("x", [-1, 3], "float32")
    y = paddle.static.data("y", [2, 3], "float32")
    compilation = compilation_of(["x", "y"], [x + y], micro_batch_size=4)
    assert BindMicroBatch().run(compilation)
    shapes = {v.name: dialect.dims_of(v) for v in compilation.graph.inputs}
    assert shapes == {"x": [4, 3], "y": [2, 3]}
    assert not BindMicroBatch().run(compilation)


def test_another_dynamic_dimension_is_refused(compilation_of: Read) -> None:
    x = paddle.static.data("x", [-1, -1], "float32")
    compilation = compilation_of(["x"], [paddle.tanh(x)])
    with pytest.raises(
        InvalidProgramError, match=r"feed 'x' has shape \[-1, -1\]: only the first dimension may"
    ):
        BindMicroBatch().run(compilation)


def test_a_scale_that_changes_nothing_goes(compilation_of: Read, op_types: Types) -> None:
    x = paddle.static.data("x", [2], "float32")
    out = paddle.tanh(paddle.scale(x, 1.0, 0.0))
    compilation = compilation_of(["x"], [out])
    ExtractForward().run(compilation)
    assert op_types(compilation) == ["full", "scale", "tanh"]
    assert DeleteScale().run(compilation)
    assert "scale" not in op_types(compilation)
    (tanh,) = [node for node in compilation.graph if node.op_type == "tanh"]
    assert tanh.inputs[0] is compilation.graph.inputs[0]
    assert not DeleteScale().run(compilation)


@pytest.mark.parametrize(("factor", "bias"), [(2.0, 0.0), (1.0, 0.5)])
def test_a_scale_that_changes_something_stays(
    compilation_of: Read, op_types: Types, factor: float, bias: float
) -> None:
    x = paddle.static.data("x", [2], "float32")
    compilation = compilation_of(["x"], [paddle.tanh(paddle.scale(x, factor, bias))])
    ExtractForward().run(compilation)
    assert not DeleteScale().run(compilation)
    assert "scale" in op_types(compilation)


def test_a_fetched_scale_stays(compilation_of: Read, op_types: Types) -> None:
    x = paddle.static.data("x", [2], "float32")
    compilation = compilation_of(["x"], [paddle.scale(x, 1.0, 0.0)])
    ExtractForward().run(compilation)
    assert not DeleteScale().run(compilation)
    assert "scale" in op_types(compilation)


def test_only_what_a_fetch_needs_stays(compilation_of: Read, op_types: Types) -> None:
    x = paddle.static.data("x", [2], "float32")
    y = paddle.static.data("y", [2], "float32")
    wanted = paddle.tanh(x)
    paddle.exp(y)
    compilation = compilation_of(["x", "y"], [wanted])
    assert ExtractForward().run(compilation)
    assert op_types(compilation) == ["tanh"]
    assert [v.name for v in compilation.graph.inputs] == ["x"]
    assert [v.name for v in compilation.graph.outputs] == [name_of(wanted)]


def test_backward_and_optimizer_go_in_training(compilation_of: Read, op_types: Types) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    loss = paddle.nn.Linear(3, 1)(x).mean()
    paddle.optimizer.SGD(0.1).minimize(loss)
    compilation = compilation_of(["x"], [loss], is_training=True)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    assert sorted(op_types(compilation)) == ["add", "full_int_array", "matmul", "mean"]


def test_a_metric_built_after_minimize_stays(compilation_of: Read, op_types: Types) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    hidden = paddle.nn.Linear(3, 1)(x)
    loss = hidden.mean()
    paddle.optimizer.SGD(0.1).minimize(loss)
    largest = paddle.max(hidden)
    compilation = compilation_of(["x"], [loss, largest], is_training=True)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    assert "max" in op_types(compilation)


def test_a_weight_read_behind_its_update_is_refused(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    weight = paddle.create_parameter([3, 1], "float32")
    loss = paddle.matmul(x, weight).mean()
    before = weight.sum()
    paddle.optimizer.SGD(0.1).minimize(loss)
    after = weight.mean()
    compilation = compilation_of(["x"], [loss, before], is_training=True)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    compilation = compilation_of(["x"], [after], is_training=True)
    ExtractOptimizer().run(compilation)
    with pytest.raises(
        NotSupported,
        match=rf"mean at .*test_forward_passes.py:\d+ reads {weight.name} after the optimizer has "
        "updated it, .* Build it before optimizer.minimize",
    ):
        ExtractForward().run(compilation)
    ExtractForward().run(compilation_of(["x"], [after], is_training=False))


def test_an_unknown_fetch_is_named(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2], "float32")
    paddle.tanh(x)
    compilation = compilation_of(["x"], ["nothing"])
    with pytest.raises(FetchError, match="fetch 'nothing' names nothing in the program"):
        ExtractForward().run(compilation)


def test_a_fetch_behind_backward_is_refused(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    loss = paddle.nn.Linear(3, 1)(x).mean()
    pairs = paddle.optimizer.SGD(0.1).minimize(loss)[1]
    squared = pairs[0][1] * 2.0
    compilation = compilation_of(["x"], [squared], is_training=True)
    ExtractOptimizer().run(compilation)
    with pytest.raises(NotSupported, match=r"depends on \w+_grad.*, an operator of backward"):
        ExtractForward().run(compilation)


def test_a_learning_rate_is_not_fetched(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    loss = paddle.mean(paddle.nn.Linear(3, 1)(x))
    paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.1, 1)).minimize(loss)
    name = programs.learning_rate_name(static_program)
    compiler = paddle.static.IpuCompiledProgram(static_program, ipu_strategy=None)
    with pytest.raises(
        NotSupported, match=rf"fetch '{name}' is the learning rate, .*: scheduler\.get_lr\(\)"
    ):
        compiler.compile(["x"], [loss, name])
