"""Programs, blocks, operators and variables answer as ProgramDesc programs do, on every Paddle."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates
from paddle_ipu.legacy.pir_names import PIR_NAMES

PIR = not paddle.__version__.startswith("2.")
pir_only = pytest.mark.skipif(not PIR, reason="Paddle 2.6 builds ProgramDesc programs, not PIR")


@pytest.fixture
def built(static_mode: None) -> SimpleNamespace:
    """``y = x @ weight + bias`` and its mean."""
    with paddle.utils.unique_name.guard():
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [2, 3], "float32")
            weight = paddle.static.create_parameter([3, 4], "float32", name="weight")
            bias = paddle.static.create_parameter([4], "float32", name="bias", is_bias=True)
            product = paddle.matmul(x, weight)
            current = main.current_block()
            matmul = product.block.ops[-1]
            y = paddle.add(product, bias)
    return SimpleNamespace(
        main=main,
        startup=startup,
        block=main.global_block(),
        current=current,
        x=x,
        weight=weight,
        product=product,
        y=y,
        matmul=matmul,
        add=main.global_block().ops[-1],
    )


def test_parameters_come_in_the_order_they_were_made(built: SimpleNamespace) -> None:
    assert [p.name for p in built.main.all_parameters()] == ["weight", "bias"]


def test_a_learning_rate_is_no_parameter(trained: SimpleNamespace) -> None:
    names = [p.name for p in trained.main.all_parameters()]
    assert names == [
        "linear_0.w_0",
        "linear_0.b_0",
        "batch_norm_0.w_0",
        "batch_norm_0.b_0",
        "batch_norm_0.w_1",
        "batch_norm_0.w_2",
    ]


def test_blocks_by_number_and_under_construction(built: SimpleNamespace) -> None:
    assert [op.type for op in built.main.block(0).ops] == [op.type for op in built.block.ops]
    assert built.current.ops[-1].type == "elementwise_add"
    assert built.main.blocks[built.main.current_block_idx].ops[-1].attr("op_namescope") == "/"
    # Outside of a guard, a program's current block is its global one.
    assert built.main.current_block().ops[-1].type == "elementwise_add"


def test_operators_have_their_old_types(trained: SimpleNamespace) -> None:
    types = {op.type for op in trained.main.global_block().ops}
    assert types >= {
        "matmul_v2",
        "elementwise_add",
        "batch_norm",
        "dropout",
        "elementwise_mul",
        "scale",
        "dropout_grad",
        "elementwise_mul_grad",
        "matmul_v2_grad",
        "adamw",
    }


def test_variables_by_name(built: SimpleNamespace) -> None:
    assert list(built.block.var("x").shape) == [2, 3]
    assert built.block.has_var("weight")
    assert not built.block.has_var("nothing")
    name = built.product.name
    assert list(built.block.var(name).shape) == [2, 4]
    assert {"x", "weight", "bias", name, built.y.name} <= set(built.block.vars)
    assert list(built.block.vars["bias"].shape) == [4]
    with pytest.raises(ValueError, match="var '?nothing'? (is )?not in this block"):
        built.block.var("nothing")


def test_operators_know_what_they_read_and_make(built: SimpleNamespace) -> None:
    assert built.matmul.input_arg_names == ["x", "weight"]
    assert built.matmul.output_arg_names == [built.product.name]
    assert built.matmul.input("X") == ["x"]
    assert built.matmul.input("Y") == ["weight"]
    assert built.matmul.output("Out") == [built.product.name]
    assert built.block.ops[built.matmul.idx].type == "matmul_v2"
    assert built.add.input("X") == built.matmul.output("Out")
    assert built.y.op.type == "elementwise_add"


def test_names_of_a_list_of_variables(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        a = paddle.static.data("a", [2, 4], "float32")
        b = paddle.static.data("b", [2, 4], "float32")
        joined = paddle.concat([a, b], axis=1)
        parts = paddle.split(joined, 2, axis=0)
    concat = next(op for op in main.global_block().ops if op.type == "concat")
    split = next(op for op in main.global_block().ops if op.type == "split")
    assert concat.input("X") == ["a", "b"]
    assert split.output("Out") == [part.name for part in parts]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ipu_index", 1),
        ("ipu_stage", 2),
        ("serialize_factor", 5),
        ("serialize_mode", "reducing_dim"),
        ("__available_memory", 0.28),
    ],
)
def test_annotations_are_written_and_read(built: SimpleNamespace, name: str, value: Any) -> None:
    assert not built.matmul.has_attr(name)
    built.block.ops[-2]._set_attr(name, value)
    assert built.matmul.has_attr(name)
    # ProgramDesc programs hold 32-bit floats.
    expected = value if isinstance(value, str) else pytest.approx(value, rel=1e-6)
    assert built.matmul.attr(name) == expected
    assert built.matmul.all_attrs()[name] == expected
    assert name in built.matmul.attr_names
    assert built.matmul.desc.has_attr(name)
    assert built.matmul.desc.attr(name) == expected


def test_annotations_reach_the_dialect(built: SimpleNamespace) -> None:
    from paddle_ipu.frontend import programs

    built.matmul._set_attr("__available_memory", 0.28)
    built.matmul._set_attr("serialize_factor", 2)
    built.matmul._set_attr("ipu_index", 1)
    graph = programs.read(built.main)
    node = next(node for node in graph if node.op_type == "matmul")
    assert node.attributes["__available_memory"].as_float() == pytest.approx(0.28)
    assert node.attributes["serialize_factor"].as_int() == 2
    assert node.attributes["ipu_index"].as_int() == 1


def test_an_attribute_of_the_operator_is_written(built: SimpleNamespace) -> None:
    name = "transpose_y" if PIR else "trans_y"
    assert built.matmul.attr(name) is False
    built.matmul._set_attr(name, True)
    assert built.matmul.attr(name) is True


def test_the_shard_guard_is_seen_through_desc(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2], "float32")
        with paddle.static.ipu_shard_guard(index=3):
            y = x * 2.0
        y + 1.0
    scales = [op for op in main.global_block().ops if op.type == "scale"]
    assert [op.desc.attr("ipu_index") for op in scales if op.desc.has_attr("ipu_index")] == [3]


def test_constants_that_were_attributes_have_no_placement_in_desc(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2, 2], "float32")
        with paddle.static.ipu_shard_guard(index=1):
            y = paddle.reshape(x * 2.0, [4])
            paddle.nn.functional.dropout(paddle.mean(y, axis=0), 0.5)
            paddle.full([4], 3.0)
    placed = [op.type for op in main.global_block().ops if op.desc.has_attr("ipu_index")]
    assert placed == ["scale", "reshape2", "reduce_mean", "dropout", "fill_constant"]


def test_an_operator_is_told_to_read_another_variable(built: SimpleNamespace) -> None:
    with paddle.static.program_guard(built.main):
        zeros = paddle.zeros([2, 4])
        y = built.product * zeros
    times = built.main.global_block().ops[-1]
    times._rename_input(zeros.name, built.product.name)
    assert times.input_arg_names == [built.product.name] * 2
    times._rename_input("nothing reads this", built.product.name)
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(paddle.static.Scope()):
        exe.run(built.startup)
        product, squared = exe.run(built.main, feed=feed, fetch_list=[built.product.name, y.name])
    np.testing.assert_allclose(squared, product**2, rtol=1e-6)


@pir_only
def test_a_variable_gets_another_name(built: SimpleNamespace) -> None:
    built.add._rename_output("nothing makes this", "other")
    built.add._rename_output(built.y.name, "result")
    assert built.add.output("Out") == ["result"]
    assert built.y.name == "result"
    assert built.block.has_var("result")


@pir_only
def test_a_name_is_not_given_twice(built: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="cannot be called 'x', the name of another variable"):
        built.add._rename_output(built.y.name, "x")
    with pytest.raises(ValueError, match="var 'nothing' is not in this block"):
        built.add._rename_input("bias", "nothing")


def test_a_variable_reads_and_writes_the_scope(built: SimpleNamespace) -> None:
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(built.startup)
        built.weight.set_value(np.full([3, 4], 2.5, np.float32))
        assert np.array(built.weight.get_value()).tolist() == [[2.5] * 4] * 3
    assert np.array(built.weight.get_value(scope)).sum() == 30.0
    with pytest.raises(ValueError, match=r"weight'? .* shape \[3, 4\],.*\[2, 2\]"):
        built.weight.set_value(np.zeros([2, 2], np.float32), scope)


def test_texts(built: SimpleNamespace) -> None:
    assert "matmul" in built.main.to_string(True)
    assert "matmul" in built.matmul.to_string(True)
    assert ("f32" if PIR else "FP32") in built.x.to_string(True)
    assert built.x.lod_level == 0


@pir_only
def test_operators_are_removed_by_position(built: SimpleNamespace) -> None:
    built.block._remove_op(built.add.idx)
    assert built.block.ops[-1].type == "matmul_v2"


@pir_only
@pytest.mark.parametrize("row", [row for row in PIR_NAMES if row.module is None], ids=str)
def test_what_pir_cannot_answer_says_what_to_write(built: SimpleNamespace, row: Any) -> None:
    owners = {
        "Program": built.main,
        "Block": built.block,
        "Operation": built.matmul,
        "Value": built.x,
    }
    owner = owners[row.owner]
    assert not hasattr(owner, row.name)
    advice = row.does.split("(")[0]
    with pytest.raises(
        AttributeError, match=rf"\.{row.owner}' object has no attribute '{row.name}'.*{advice}"
    ):
        getattr(owner, row.name)


@pir_only
def test_attributes_nobody_reads_are_refused(built: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="matmul_v2 has no attribute 'alpha', setting it would"):
        built.matmul._set_attr("alpha", 2.0)
    with pytest.raises(ValueError, match="matmul_v2 has no attribute 'alpha'; it has 'transpose_x"):
        built.matmul.attr("alpha")


@pir_only
def test_attributes_of_another_type_are_refused(built: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match=r"'ipu_index': expected int, got str \('one'\)"):
        built.matmul._set_attr("ipu_index", "one")
    with pytest.raises(TypeError, match="'ipu_index': expected int, got bool"):
        built.matmul._set_attr("ipu_index", True)
    with pytest.raises(TypeError, match="'transpose_x': expected bool, got int"):
        built.matmul._set_attr("transpose_x", 1)


@pir_only
def test_float_attributes_of_an_operator_are_refused(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2], "float32")
        paddle.nn.functional.leaky_relu(x, 0.25)
    operator = main.global_block().ops[-1]
    with pytest.raises(ValueError, match="'negative_slope': PIR does not let Python write.*float"):
        operator._set_attr("negative_slope", 0.5)


@pir_only
def test_what_is_not_there_is_named(built: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"block\(1\): a PIR program numbers 1 block"):
        built.main.block(1)
    with pytest.raises(ValueError, match="matmul_v2 has no input 'Bias'; it has 'x', 'y'"):
        built.matmul.input("Bias")
    with pytest.raises(ValueError, match="matmul_v2 has no output 'Mask'; it has 'out'"):
        built.matmul.output("Mask")
    with pytest.raises(AttributeError, match="op.desc of a PIR operator has no attribute 'foo'"):
        _ = built.matmul.desc.foo
    with pytest.raises(TypeError, match=r"var\(name\): expected a str, got int"):
        built.block.var(3)
    with pytest.raises(ValueError, match="variable 'weight' is not in the scope"):
        built.weight.get_value(paddle.static.Scope())
