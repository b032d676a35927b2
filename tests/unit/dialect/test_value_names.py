"""Names of PIR values: Paddle's own, and stable ones for intermediates."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.dialect import value_names

pytestmark = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2's programs are not PIR programs"
)


@pytest.fixture
def x(static_program: Any) -> Any:
    return paddle.static.data("x", [2, 4], "float32")


def test_own_names_stay_and_nothing_is_stamped(static_program: Any, x: Any) -> None:
    layer = paddle.nn.Linear(4, 3)
    layer(x)
    assert x.name == "x"
    assert layer.weight.name.startswith("linear_")
    assert value_names.name_of(layer.weight) == layer.weight.name
    for operator in static_program.global_block().ops:
        assert not any(key.startswith("paddle_ipu.") for key in operator.attrs())


def test_name_of_an_intermediate_is_stable_and_unique(x: Any) -> None:
    y, z = paddle.tanh(x), paddle.tanh(x)
    assert y.name == y.name == value_names.name_of(y)
    assert y.name.startswith("tanh_")
    assert len({x.name, y.name, z.name}) == 3


def test_names_are_unique_across_programs(static_program: Any, x: Any) -> None:
    name = paddle.tanh(x).name
    with paddle.static.program_guard(paddle.static.Program()):
        assert paddle.tanh(paddle.static.data("x", [2], "float32")).name != name


def test_each_result_of_an_operator_has_a_name(static_program: Any, x: Any) -> None:
    values, indices = paddle.topk(x, 2)
    assert values.name != indices.name
    assert value_names.find(static_program, values.name).is_same(values)
    assert value_names.find(static_program, indices.name).is_same(indices)


def test_clone_finds_the_name(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    name = y.name
    clone = static_program.clone()
    found = value_names.find(clone, name)
    assert found.get_defining_op().name() == "pd_op.tanh"
    assert found.get_defining_op().get_parent_block().program == clone
    assert found.name == name


def test_clone_finds_a_name_asked_later(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    clone = static_program.clone()
    of_clone = clone.clone()
    name = y.name
    for program in (clone, of_clone):
        found = value_names.find(program, name)
        assert found.get_defining_op().name() == "pd_op.tanh"
        assert found.get_defining_op().get_parent_block().program == program


def test_a_name_asked_of_a_clone_is_in_the_original(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    clone = static_program.clone()
    (tanh,) = (op for op in clone.global_block().ops if op.name() == "pd_op.tanh")
    assert value_names.find(static_program, tanh.result(0).name).is_same(y)


def test_names_stay_apart_when_copies_grow(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    clone = static_program.clone()
    later = paddle.tanh(y)
    with paddle.static.program_guard(clone):
        of_clone = paddle.tanh(value_names.find(clone, y.name))
    assert len({y.name, later.name, of_clone.name}) == 3
    assert value_names.find(clone, later.name) is None
    assert value_names.find(static_program, of_clone.name) is None


def test_clone_finds_a_name_of_a_branch_asked_later(static_program: Any, x: Any) -> None:
    inside = []

    def branch() -> Any:
        inside.append(paddle.tanh(x))
        return inside[0]

    paddle.static.nn.cond(paddle.mean(x) > 0, branch, lambda: x)
    clone = static_program.clone()
    assert value_names.find(clone, inside[0].name).get_defining_op().name() == "pd_op.tanh"


def test_clone_finds_parts_of_a_list(static_program: Any, x: Any) -> None:
    parts = paddle.unbind(x)
    clone = static_program.clone()
    for index, part in enumerate(parts):
        found = value_names.find(clone, part.name)
        assert found.get_defining_op().name() == "builtin.split"
        assert found.index() == index


def test_clone_for_test_finds_a_name_asked_later(static_program: Any, x: Any) -> None:
    y = paddle.mean(paddle.nn.Linear(4, 3)(x))
    paddle.optimizer.SGD(0.1).minimize(y)
    clone = static_program.clone(for_test=True)
    assert value_names.find(clone, y.name).get_defining_op().name() == "pd_op.mean"


def test_find_own_names(static_program: Any, x: Any) -> None:
    layer = paddle.nn.Linear(4, 3)
    layer(x)
    assert value_names.find(static_program, "x").is_same(x)
    found = value_names.find(static_program, layer.weight.name)
    assert found.get_defining_op().name() == "builtin.parameter"
    assert value_names.find(static_program, "no such name") is None


def test_find_in_a_branch(static_program: Any, x: Any) -> None:
    names = []

    def branch() -> Any:
        y = paddle.tanh(x)
        names.append(y.name)
        return y

    paddle.static.nn.cond(paddle.mean(x) > 0, branch, lambda: x)
    found = value_names.find(static_program, names[0])
    assert found.get_defining_op().name() == "pd_op.tanh"


def test_named_values_are_those_with_names(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    paddle.tanh(y)
    assert [name for name, _ in value_names.named_values(static_program)] == ["x"]
    assert [name for name, _ in value_names.named_values(static_program)] == ["x"]
    y_name = y.name
    assert [name for name, _ in value_names.named_values(static_program)] == ["x", y_name]


def test_a_named_program_runs_before_and_after(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    executor = paddle.static.Executor()
    feed = {"x": np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)}
    before = executor.run(static_program, feed=feed, fetch_list=[y])
    assert y.name
    after = executor.run(static_program, feed=feed, fetch_list=[y])
    np.testing.assert_allclose(before[0], np.tanh(feed["x"]), rtol=1e-6)
    np.testing.assert_array_equal(before, after)


def test_name_given_by_paddle_later_comes_first(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    stamped = y.name
    paddle._pir_ops.set_persistable_value(y, "shown")
    assert y.name == "shown"
    assert value_names.find(static_program, "shown").is_same(y)
    assert value_names.find(static_program, stamped).is_same(y)


def test_data_can_still_be_renamed(x: Any) -> None:
    x.name = "renamed"
    assert x.name == "renamed"
