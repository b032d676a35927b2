"""cut_gradients: where it puts a share_data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle

from paddle_ipu.passes.cut_gradients import CutGradients
from paddle_ipu.passes.extract_forward import ExtractForward
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pass_base import Compilation

Read = Callable[..., Compilation]
Types = Callable[[Compilation], list[str]]


def _forward(compilation_of: Read, loss: Any) -> Compilation:
    paddle.optimizer.SGD(0.5).minimize(loss)
    compilation = compilation_of(["x"], [loss], is_training=True)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    return compilation


def test_a_stopped_value_is_read_through_share_data(compilation_of: Read, op_types: Types) -> None:
    x = paddle.static.data("x", [4, 8], "float32")
    hidden = paddle.nn.Linear(8, 6)(x)
    stopped = paddle.exp(hidden)
    stopped.stop_gradient = True
    compilation = _forward(compilation_of, paddle.mean(hidden * stopped))
    before = op_types(compilation)
    assert CutGradients().run(compilation)
    place = before.index("exp") + 1
    assert op_types(compilation) == [*before[:place], "share_data", *before[place:]]
    nodes = {node.op_type: node for node in compilation.graph}
    assert nodes["share_data"].inputs[0] is nodes["exp"].outputs[0]
    assert nodes["multiply"].inputs[1] is nodes["share_data"].outputs[0]


def test_what_no_weight_reaches_is_left_as_it_is(compilation_of: Read) -> None:
    x = paddle.static.data("x", [4, 8], "float32")
    stopped = paddle.tanh(x)
    stopped.stop_gradient = True
    compilation = _forward(compilation_of, paddle.mean(paddle.nn.Linear(8, 6)(stopped)))
    assert not CutGradients().run(compilation)


def test_what_the_loss_does_not_need_is_left_as_it_is(compilation_of: Read) -> None:
    x = paddle.static.data("x", [4, 8], "float32")
    hidden = paddle.nn.Linear(8, 6)(x)
    metric = paddle.exp(hidden)
    metric.stop_gradient = True
    metric = paddle.tanh(metric)
    paddle.optimizer.SGD(0.5).minimize(paddle.mean(hidden))
    compilation = compilation_of(["x"], [metric], is_training=True)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    assert not CutGradients().run(compilation)


def test_constants_in_the_shape_of_a_weighted_value_are_left(compilation_of: Read) -> None:
    x = paddle.static.data("x", [4, 8], "float32")
    hidden = paddle.nn.Linear(8, 6)(x)
    zeros = paddle.zeros_like(hidden)
    zeros.stop_gradient = True
    compilation = _forward(compilation_of, paddle.mean(hidden + zeros))
    assert not CutGradients().run(compilation)
