"""PIR programs in the paddle dialect: roles, operands, lists, attributes, names, source lines."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import paddle
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend import pir

pytestmark = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2's programs are not PIR programs"
)


def _node(graph: ir.Graph, op_type: str) -> ir.Node:
    (found,) = [node for node in graph if node.op_type == op_type]
    return found


def test_feeds_parameters_states_and_the_learning_rate_become_inputs(static_program: Any) -> None:
    x = paddle.static.data("x", [-1, 3], "float32")
    layer = paddle.nn.Linear(3, 2, bias_attr=False)
    loss = layer(x).mean()
    scheduler = paddle.optimizer.lr.StepDecay(0.1, 2)
    paddle.optimizer.Momentum(scheduler, 0.9).minimize(loss)
    graph = pir.read(static_program, static_program.lr_name)
    roles = {value.meta[dialect.ROLE]: value for value in graph.inputs}
    assert sorted(roles) == ["feed", "learning_rate", "parameter", "state"]
    assert roles["feed"].name == "x"
    assert dialect.dims_of(roles["feed"]) == [-1, 3]
    assert roles["parameter"].name == layer.weight.name
    assert roles["parameter"].meta[dialect.TRAINABLE] is True
    assert roles["learning_rate"].name == static_program.lr_name


def test_a_node_keeps_operands_attributes_and_the_users_line(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    paddle.matmul(x, x, transpose_y=True)
    node = _node(pir.read(static_program), "matmul")
    assert node.domain == "paddle"
    assert [name for name, _ in dialect.operands(node)] == ["x", "y"]
    assert dialect.operand(node, "y") is dialect.operand(node, "x")
    assert dialect.attribute(node, "transpose_x") == 0
    assert dialect.attribute(node, "transpose_y") == 1
    assert "op_callstack" not in node.attributes
    assert dialect.dtype_name(node.outputs[0]) == "float32"
    assert dialect.dims_of(node.outputs[0]) == [2, 2]
    file, _, line = dialect.source_of(node).rpartition(":")
    assert file == __file__
    assert int(line) > 0


def test_lists_are_laid_out_flat(static_program: Any) -> None:
    x = paddle.static.data("x", [4, 2], "float32")
    first, second = paddle.split(x, [1, 3], axis=0)
    paddle.concat([second, x, first])
    graph = pir.read(static_program)
    split, concat = _node(graph, "split"), _node(graph, "concat")
    assert [dialect.dims_of(value) for value in split.outputs] == [[1, 2], [3, 2]]
    assert dialect.attribute(split, "output_segments") == (2,)
    assert dialect.attribute(concat, "input_segments") == (3, 1)
    assert [name for name, _ in dialect.operands(concat)] == ["x", "x", "x", "axis"]
    assert concat.inputs[:3] == (split.outputs[1], graph.inputs[0], split.outputs[0])


def test_an_omitted_operand_is_none(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    paddle.nn.functional.layer_norm(x, 3)
    node = _node(pir.read(static_program), "layer_norm")
    assert dialect.operand(node, "scale") is None
    assert dialect.operand(node, "x") is not None


def test_values_keep_the_names_they_are_fetched_by(static_program: Any) -> None:
    x = paddle.static.data("x", [4], "float32")
    out = paddle.tanh(x)
    parts = paddle.split(out, 2)
    names = [name_of(value) for value in (out, *parts)]
    graph = pir.read(static_program)
    assert _node(graph, "tanh").outputs[0].name == names[0]
    assert [value.name for value in _node(graph, "split_with_num").outputs] == names[1:]


def test_reading_leaves_the_program_as_it_was(static_program: Any) -> None:
    x = paddle.static.data("x", [4], "float32")
    paddle.concat([paddle.tanh(x), x])
    before = str(static_program)
    pir.read(static_program)
    assert str(static_program) == before


def test_every_value_has_a_name_of_its_own(static_program: Any) -> None:
    x = paddle.static.data("tanh.1.0", [4], "float32")
    paddle.concat(paddle.split(paddle.tanh(x), 2))
    graph = pir.read(static_program)
    names = [v.name for v in graph.inputs] + [v.name for node in graph for v in node.outputs]
    assert len(names) == len(set(names))


def test_an_attribute_without_a_form_is_refused(static_program: Any) -> None:
    with pytest.raises(NotSupported, match="operator odd: attribute 'what' is a object, which the"):
        pir._plain("odd", "what", object())


@pytest.mark.skipif(
    paddle.__version__.startswith("3.0"), reason="Paddle 3.0 refuses such data itself"
)
def test_a_dtype_the_ipu_lacks_is_refused(static_program: Any) -> None:
    paddle.static.data("x", [2], paddle.float8_e4m3fn)
    with pytest.raises(NotSupported, match="dtype float8_e4m3fn is not supported in IPU programs"):
        pir.read(static_program)
