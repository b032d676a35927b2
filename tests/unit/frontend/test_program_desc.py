"""program_desc: variables become values, saved programs, backward, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError, NotSupported, UnsupportedOpError
from paddle_ipu.frontend import program_desc
from paddle_ipu.frontend.vocabulary.row import row
from paddle_ipu.ops.translate import check_supported, translate
from tests.unit.frontend.desc_builder import DescBuilder, read, text

# Variables.


def test_inputs_have_the_roles_of_their_variables(builder: DescBuilder) -> None:
    builder.variable("velocity", (3, 4), persistable=True)
    builder.variable("learning_rate_0", (), persistable=True)
    builder.operator("elementwise_add", {"X": ["x"], "Y": ["w"]}, {"Out": ["y"]}, {"axis": -1})
    graph = program_desc.read(builder.serialized(), "learning_rate_0")
    roles = {value.name: value.meta[dialect.ROLE] for value in graph.inputs}
    assert roles == {
        "x": dialect.FEED,
        "w": dialect.PARAMETER,
        "velocity": dialect.STATE,
        "learning_rate_0": dialect.LEARNING_RATE,
    }
    trainable = {value.name for value in graph.inputs if value.meta[dialect.TRAINABLE]}
    assert trainable == {"w"}


def test_the_last_version_of_a_variable_has_its_name(builder: DescBuilder) -> None:
    for _ in range(3):
        builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]})
        builder.operator("tanh", {"X": ["y"]}, {"Out": ["y"]})
    assert text(read(builder)) == [
        "y@1 = relu(x)",
        "y@2 = tanh(y@1)",
        "y@3 = relu(x)",
        "y@4 = tanh(y@3)",
        "y@5 = relu(x)",
        "y = tanh(y@5)",
    ]


def test_the_first_version_of_a_weight_has_its_name(builder: DescBuilder) -> None:
    builder.operator("relu", {"X": ["w"]}, {"Out": ["w"]})
    builder.operator("relu", {"X": ["w"]}, {"Out": ["w"]})
    graph = read(builder)
    assert text(graph) == ["w@1 = relu(w)", "w@2 = relu(w@1)"]
    assert {value.meta[dialect.VARIABLE] for node in graph for value in node.outputs} == {"w"}


def test_who_reads_a_weight_behind_its_update_reads_the_weight(builder: DescBuilder) -> None:
    builder.variable("g", (3, 4), is_feed=True)
    builder.variable("rate", (1,), persistable=True)
    slots = {"Param": ["w"], "Grad": ["g"], "LearningRate": ["rate"]}
    builder.operator("sgd", slots, {"ParamOut": ["w"]}, {"op_role": 2})
    builder.operator("relu", {"X": ["w"]}, {"Out": ["y"]})
    update, reader = read(builder)
    assert update.outputs[0].name == "w@1"
    assert [value.name for value in reader.inputs if value is not None] == ["w"]


def test_a_version_never_takes_the_name_of_a_variable(builder: DescBuilder) -> None:
    builder.variable("y@1")
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y@1"]})
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]})
    builder.operator("tanh", {"X": ["y"]}, {"Out": ["y"]})
    assert text(read(builder)) == ["y@1 = relu(x)", "y@1_ = relu(x)", "y = tanh(y@1_)"]


def test_an_assign_into_a_weight_is_a_side_effect(builder: DescBuilder) -> None:
    builder.variable("v", (3, 4))
    builder.operator("assign", {"X": ["w"]}, {"Out": ["v"]})
    builder.operator("assign", {"X": ["v"]}, {"Out": ["w"]})
    assert text(read(builder)) == ["v = assign(w)", "w@1 = assign_out_(v, w)"]


def test_values_assigned_to_a_weight_are_a_side_effect(builder: DescBuilder) -> None:
    attributes = {"shape": [1], "dtype": 5, "fp32_values": [2.5]}
    builder.operator("assign_value", {}, {"Out": ["w"]}, attributes)
    builder.operator("assign_value", {}, {"Out": ["y"]}, attributes)
    graph = read(builder)
    assert text(graph) == ["w@1 = assign_value_(w)", "y = assign_value()"]
    assert [dialect.attribute(node, "values") for node in graph] == [(2.5,), (2.5,)]


def test_incrementing_in_place_keeps_the_dialects_mark(builder: DescBuilder) -> None:
    builder.operator("increment", {"X": ["w"]}, {"Out": ["w"]}, {"step": 2.0})
    assert text(read(builder)) == ["w@1 = increment_(w)"]


def test_lists_are_flat_with_their_lengths(builder: DescBuilder) -> None:
    names = [builder.variable(name) for name in ("a", "b", "c")]
    builder.operator("split", {"X": ["x"]}, {"Out": names}, {"axis": 1, "num": 3, "sections": []})
    builder.operator("concat", {"X": names}, {"Out": ["y"]}, {"axis": 1})
    split, concat = (node for node in read(builder) if node.op_type != "full")
    assert dialect.attribute(split, "output_segments") == (3,)
    assert dialect.attribute(concat, "input_segments") == (3, 1)
    assert [value.name for value in split.outputs] == names


def test_results_nobody_wants_keep_their_place(builder: DescBuilder) -> None:
    builder.operator("layer_norm", {"X": ["x"]}, {"Y": ["y"]}, {"begin_norm_axis": 1})
    (node,) = read(builder)
    assert [None if value.type is None else value.name for value in node.outputs] == [
        "y",
        None,
        None,
    ]
    assert [name for name, value in dialect.operands(node) if value is None] == ["scale", "bias"]


def test_statistics_that_inference_does_not_change_are_not_written(builder: DescBuilder) -> None:
    statistics = [builder.variable(name, (3,), persistable=True) for name in ("mean", "variance")]
    slots = {"Mean": [statistics[0]], "Variance": [statistics[1]]}
    written = {"MeanOut": [statistics[0]], "VarianceOut": [statistics[1]]}
    for source, result in (("x", "y"), ("y", "y")):
        builder.operator(
            "batch_norm", {"X": [source], **slots}, {"Y": [result], **written}, {"is_test": True}
        )
    first, second = read(builder)
    assert dialect.operand(first, "mean") is dialect.operand(second, "mean")


@pytest.mark.parametrize("kind", ["batch_norm", "sync_batch_norm"])
@pytest.mark.parametrize("attributes", [{}, {"is_test": True, "trainable_statistics": True}])
def test_training_writes_running_statistics(
    builder: DescBuilder, kind: str, attributes: dict[str, bool]
) -> None:
    builder.variable("m", (3,), persistable=True)
    builder.variable("v", (3,), persistable=True)
    builder.operator(
        kind,
        {"X": ["x"], "Mean": ["m"], "Variance": ["v"]},
        {"Y": ["y"], "MeanOut": ["m"], "VarianceOut": ["v"]},
        attributes,
    )
    (node,) = read(builder)
    assert node.op_type == "batch_norm_"
    assert [value.name for value in node.outputs[:3]] == ["y", "m@1", "v@1"]


def test_what_belongs_to_every_operator_is_kept(builder: DescBuilder) -> None:
    kept = {"op_role": 256, "ipu_index": 1, "ipu_stage": 2}
    memory = {"__available_memory": 0.25, "serialize_factor": 4, "serialize_mode": "reducing_dim"}
    lost = {"op_device": "gpu", "op_namescope": "/", "use_mkldnn": False, "Scale_x": 1.0}
    builder.operator(
        "elementwise_add",
        {"X": ["x"], "Y": ["w"]},
        {"Out": ["y"]},
        {**kept, **memory, **lost, "axis": -1},
    )
    (node,) = read(builder)
    assert {name: found.value for name, found in node.attributes.items()} == {**kept, **memory}


def test_outside_every_shard_there_is_no_placement(builder: DescBuilder) -> None:
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]}, {"ipu_index": -1, "ipu_stage": -1})
    (node,) = read(builder)
    assert not node.attributes


def test_a_constant_stands_where_its_operator_does(builder: DescBuilder) -> None:
    builder.operator("scale", {"X": ["x"]}, {"Out": ["y"]}, {"ipu_index": 3, "scale": 2.0})
    assert [dialect.attribute(node, "ipu_index") for node in read(builder)] == [3, 3]


def test_a_node_names_the_line_of_its_call(builder: DescBuilder) -> None:
    stack = ['  File "train.py", line 7, in <module>', "    y = relu(x)"]
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]}, {"op_callstack": stack})
    (node,) = read(builder)
    assert dialect.describe(node) == "relu at train.py:7"


# Saved programs.


def test_a_saved_programs_feeds_and_fetches_stand_in_their_columns(builder: DescBuilder) -> None:
    builder.variable("z")
    for column, name in ((1, "x"), (0, "z")):
        builder.operator("feed", {"X": ["feed"]}, {"Out": [name]}, {"col": column})
    builder.operator("elementwise_add", {"X": ["x"], "Y": ["z"]}, {"Out": ["y"]}, {"axis": -1})
    for column, name in ((1, "x"), (0, "y")):
        builder.operator("fetch", {"X": [name]}, {"Out": ["fetch"]}, {"col": column})
    program = builder.serialized()
    assert program_desc.signature(program) == (["z", "x"], ["y", "x"])
    graph = program_desc.read(program)
    assert text(graph) == ["y = add(x, z)"]
    roles = {value.name: value.meta[dialect.ROLE] for value in graph.inputs}
    assert roles == {"x": dialect.FEED, "z": dialect.FEED, "w": dialect.PARAMETER}


def test_a_message_reads_as_its_bytes(builder: DescBuilder) -> None:
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]})
    assert text(program_desc.read(builder.desc)) == text(read(builder)) == ["y = relu(x)"]


@pytest.mark.parametrize("damage", [lambda data: data[:-7], lambda data: b"PK\3\4"])
def test_bytes_that_are_no_program_are_refused(builder: DescBuilder, damage: Any) -> None:
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]})
    data = damage(builder.serialized())
    with pytest.raises(
        InvalidProgramError, match=rf"the {len(data)} bytes are no complete ProgramDesc \(.*cut off"
    ):
        program_desc.read(data)


@pytest.mark.parametrize("given", [bytes, lambda data: type(DescBuilder().desc).FromString(data)])
def test_a_program_without_a_block_is_refused(given: Any) -> None:
    with pytest.raises(InvalidProgramError, match="has no block, expected at least one: the file"):
        program_desc.read(given(b""))


# Backward.


def test_backward_follows_the_names_of_forward(builder: DescBuilder) -> None:
    gradients = [builder.variable(f"{name}@GRAD") for name in ("x", "w", "y")]
    builder.operator(
        "matmul_v2_grad",
        {"X": ["x"], "Y": ["w"], "Out@GRAD": [gradients[2]]},
        {"X@GRAD": [gradients[0]], "Y@GRAD": [gradients[1]]},
        {"op_role": 1, "trans_x": False, "trans_y": False},
    )
    graph = read(builder)
    assert text(graph) == ["x@GRAD, w@GRAD = matmul_grad(x, w, y@GRAD)"]
    (node,) = graph
    assert [name for name, _ in dialect.operands(node)] == ["x", "y", "out_grad"]


def test_backward_does_not_need_what_the_dialect_leaves_out(builder: DescBuilder) -> None:
    builder.variable("shape_of_x", (0, 2, 3, 4))
    for name in ("x@GRAD", "y@GRAD"):
        builder.variable(name)
    builder.operator(
        "reshape2", {"X": ["x"]}, {"Out": ["y"], "XShape": ["shape_of_x"]}, {"shape": [2, 12]}
    )
    builder.operator(
        "reshape2_grad",
        {"XShape": ["shape_of_x"], "Out@GRAD": ["y@GRAD"]},
        {"X@GRAD": ["x@GRAD"]},
        {"op_role": 1},
    )
    assert text(read(builder)) == ["y = reshape(x)", "x@GRAD = reshape_grad(y@GRAD)"]


# What is refused.


def test_every_unknown_operator_is_named_with_its_line(builder: DescBuilder) -> None:
    for line, type in ((3, "warp_sequence"), (4, "recurrent"), (5, "warp_sequence")):
        stack = [f'  File "old.py", line {line}, in <module>']
        builder.operator(
            type, {"X": ["x"]}, {"Out": ["y"]}, {"op_callstack": stack, "beam": 4, "name": "n"}
        )
    graph = read(builder)
    with pytest.raises(UnsupportedOpError) as raised:
        check_supported(graph)
    message = str(raised.value)
    assert "warp_sequence (2x), first at old.py:3" in message
    assert "recurrent (1x), first at old.py:4" in message
    check_supported(graph, {"warp_sequence", "recurrent"})
    assert dialect.attribute(next(iter(graph)), "beam") == 4


def test_an_unknown_operators_operands_stand_as_it_was_registered(builder: DescBuilder) -> None:
    # A ProgramDesc has the slots Index, Updates and X in alphabetical order.
    for name in ("index", "updates"):
        builder.variable(name, is_feed=True)
    slots = {"Index": ["index"], "Updates": ["updates"], "X": ["x"]}
    builder.operator("scatter_nd_add", slots, {"Out": ["y"]})
    builder.operator("warp_sequence", slots, {"Out": ["y"]})
    assert text(read(builder)) == [
        "y@1 = scatter_nd_add(x, index, updates)",
        "y = warp_sequence(index, updates, x)",
    ]


def test_a_newer_version_of_an_operator_is_refused(builder: DescBuilder) -> None:
    builder.operator("gather", {"X": ["x"], "Index": ["w"]}, {"Out": ["y"]}, {"axis": 0})
    builder.operator("relu", {"X": ["y"]}, {"Out": ["y"]})
    builder.operator_version("gather", 2)
    builder.operator_version("relu", 1)
    builder.operator_version("roll", 9)
    with pytest.raises(
        NotSupported, match="gather is version 2, known is 1; relu is version 1, known is 0"
    ):
        read(builder)


def test_known_versions_are_read(builder: DescBuilder) -> None:
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]})
    builder.operator_version("fill_constant", 2)
    builder.operator_version("warp_sequence", 7)
    assert text(read(builder)) == ["y = relu(x)"]


@pytest.mark.parametrize(
    ("type", "attributes", "match"),
    [
        ("relu", {"negative": 0.5}, "operator relu: attribute 'negative' is not known here.* 0.5"),
        ("swish", {"beta": 2.0}, "operator swish: beta = 2.0 is not supported; only 1.0 is"),
        ("relu6", {"threshold": 5.0}, "threshold = 5.0 is not supported; only 6.0 is"),
        ("reduce_prod", {"out_dtype": 6}, "out_dtype = 6 is not supported; only -1 is"),
        ("hard_swish", {"offset": 1.0}, "offset = 1.0 is not supported; only 3.0 is"),
        ("cast", {"out_dtype": 77}, "'out_dtype' is dtype number 77"),
        ("cast", {}, "operator cast has no attribute 'out_dtype', which it needs for 'dtype'"),
    ],
)
def test_an_attribute_that_may_change_the_result_is_refused(
    builder: DescBuilder, type: str, attributes: Mapping[str, Any], match: str
) -> None:
    builder.operator(type, {"X": ["x"]}, {"Out": ["y"]}, attributes)
    with pytest.raises((NotSupported, InvalidProgramError), match=match):
        read(builder)


@pytest.mark.parametrize(
    ("type", "attributes", "match"),
    [
        (
            "strided_slice",
            {"axes": [0, 1], "starts": [0], "ends": [-1], "strides": [-1]},
            "operator strided_slice has no input Input. The program is damaged",
        ),
        ("cast", {"out_dtype": [5]}, r"operator cast contradicts itself \(TypeError: .*report it"),
        ("mul", {"x_num_col_dims": "two"}, r"operator mul contradicts itself \(ValueError: .*two"),
    ],
)
def test_an_operator_that_contradicts_itself_is_named(
    builder: DescBuilder, type: str, attributes: Mapping[str, Any], match: str
) -> None:
    slots = {"X": ["x"], "Y": ["w"]} if type == "mul" else {"X": ["x"]}
    builder.operator(type, slots, {"Out": ["y"]})
    op = builder.block.ops[-1]
    for name, value in attributes.items():
        builder.attribute(op, name, value)
    with pytest.raises(InvalidProgramError, match=match):
        read(builder)


def test_an_operator_without_its_result_is_named(builder: DescBuilder) -> None:
    builder.operator("flatten2", {"X": ["x"]}, {}, {"axis": 1})
    with pytest.raises(InvalidProgramError, match="operator flatten2 has no output Out"):
        read(builder)


def test_a_nested_block_is_an_operator_without_translator(builder: DescBuilder) -> None:
    builder.block.vars.add(name="scopes").type.type = 11
    builder.operator("recurrent", {"X": ["x"]}, {"Out": ["y"], "StepScopes": ["scopes"]})
    builder.block.ops[-1].attrs.add(name="sub_block", type=8).block_idx = 1
    builder.desc.blocks.add(idx=1, parent_idx=0)
    builder.operator("relu", {"X": ["y"]}, {"Out": ["y"]})
    graph = read(builder)
    with pytest.raises(UnsupportedOpError, match=r"recurrent \(1x\)"):
        check_supported(graph)


def test_a_fused_activation_is_refused(builder: DescBuilder) -> None:
    slots = {"Input": ["x"], "Filter": ["w"]}
    builder.operator("conv2d", slots, {"Output": ["y"]}, {"fuse_activation": "relu"})
    with pytest.raises(NotSupported, match="fuse_activation = 'relu' is not supported; only ''"):
        read(builder)


def test_an_input_the_vocabulary_lacks_is_refused(builder: DescBuilder) -> None:
    builder.operator("pow", {"X": ["x"], "FactorTensor": ["w"]}, {"Out": ["y"]})
    with pytest.raises(NotSupported, match="operator pow: input FactorTensor is not supported"):
        read(builder)


def test_an_attribute_computed_in_the_program_is_refused(builder: DescBuilder) -> None:
    builder.operator("softmax", {"X": ["x"]}, {"Out": ["y"]})
    attribute = builder.block.ops[-1].attrs.add(name="axis", type=13)
    attribute.var_name = "w"
    with pytest.raises(NotSupported, match=r"'axis' is computed in the program \(variable 'w'\)"):
        read(builder)


def test_an_attribute_computed_in_the_program_may_be_an_operand(builder: DescBuilder) -> None:
    builder.operator("reduce_mean", {"X": ["x"]}, {"Out": ["y"]})
    attribute = builder.block.ops[-1].attrs.add(name="dim", type=14)
    attribute.vars_name.extend(["w", "w"])
    (node,) = read(builder)
    assert [value.name for value in node.inputs if value is not None] == ["x", "w", "w"]
    assert dialect.attribute(node, "input_segments") == (1, 2)


def test_an_undeclared_variable_is_named(builder: DescBuilder) -> None:
    builder.operator("relu", {"X": ["x"]}, {"Out": ["nowhere"]})
    with pytest.raises(InvalidProgramError, match="'nowhere', which it never declares"):
        read(builder)


def test_a_value_read_before_it_is_written_is_named(builder: DescBuilder) -> None:
    builder.operator("relu", {"X": ["y"]}, {"Out": ["y"]})
    with pytest.raises(InvalidProgramError, match="operator relu reads 'y' before anything"):
        read(builder)


def test_a_feed_that_is_written_again_stays_the_input(builder: DescBuilder) -> None:
    builder.operator("relu", {"X": ["x"]}, {"Out": ["x"]})
    builder.operator("tanh", {"X": ["x"]}, {"Out": ["y"]})
    graph = read(builder)
    assert text(graph) == ["x@1 = relu(x)", "y = tanh(x@1)"]
    assert [value.name for value in graph.inputs if value.meta.get(dialect.WRITTEN_AGAIN)] == ["x"]


def test_only_dense_tensors_are_read(builder: DescBuilder) -> None:
    builder.block.vars.add(name="table").type.type = 12
    builder.operator("relu", {"X": ["table"]}, {"Out": ["y"]})
    with pytest.raises(NotSupported, match="'table' is no dense tensor"):
        read(builder)


def test_an_array_of_tensors_is_no_tensor(builder: DescBuilder) -> None:
    builder.block.vars.add(name="array").type.type = 13
    builder.operator("relu", {"X": ["array"]}, {"Out": ["y"]})
    graph = read(builder)
    with pytest.raises(NotSupported, match="'array@0' is an array of tensors, and it takes a ten"):
        translate(graph, popart, lambda name: np.zeros(()))


def test_a_dtype_that_the_dialect_lacks_is_named(builder: DescBuilder) -> None:
    variable = builder.block.vars[0]
    field = variable.type.DESCRIPTOR.fields_by_number[3].name
    getattr(variable.type, field).tensor.data_type = 19
    builder.operator("relu", {"X": ["x"]}, {"Out": ["y"]})
    with pytest.raises(NotSupported, match="variable 'x' has dtype number 19"):
        read(builder)


def test_a_second_row_of_one_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="the vocabulary has relu twice"):
        row("relu", "relu", "x=X")


def test_an_assertion_has_a_condition_and_data_and_no_result(builder: DescBuilder) -> None:
    builder.variable("cond", (), "bool", is_feed=True)
    inputs = {"Cond": ["cond"], "Data": ["x", "x"]}
    builder.operator("assert", inputs, {}, {"summarize": 5})
    (node,) = [node for node in read(builder) if node.op_type == "assert"]
    assert [name for name, _ in dialect.operands(node)] == ["cond", "data", "data"]
    assert dialect.attribute(node, "summarize") == 5 and not node.outputs


def _without_block(op: Any) -> None:
    del op.attrs[:]


def _inside_itself(op: Any) -> None:
    op.attrs[0].block_idx = 1


def _without_condition(op: Any) -> None:
    del op.inputs[0].arguments[:]


@pytest.mark.parametrize("kind", ["while", "conditional_block"])
@pytest.mark.parametrize(
    ("damage", "is_inside", "match"),
    [
        (_without_block, False, "has no block: its attribute sub_block is None"),
        (_inside_itself, True, "block 1 is inside itself"),
        (_without_condition, False, "has no condition: its input (Condition|Cond) is empty"),
    ],
)
def test_control_flow_that_contradicts_itself_is_named(
    builder: DescBuilder, kind: str, damage: Any, is_inside: bool, match: str
) -> None:
    builder.variable("going", (1,), "bool")
    inner = builder.desc.blocks.add(idx=1, parent_idx=0)
    for block in (builder.block, *([inner] if is_inside else [])):
        op = block.ops.add(type=kind)
        op.inputs.add(parameter="Condition" if kind == "while" else "Cond", arguments=["going"])
        op.outputs.add(parameter="Out", arguments=["x"])
        op.attrs.add(name="sub_block", type=8, block_idx=1)
        damage(op)
    with pytest.raises(InvalidProgramError, match=match):
        read(builder)


def test_a_selection_from_one_variable_is_named(builder: DescBuilder) -> None:
    for name in ("going", "not_going", "mask"):
        builder.variable(name, (1,), "bool")
    blocks = [builder.desc.blocks.add(idx=at, parent_idx=0) for at in (1, 2)]
    for block, condition in zip(blocks, ("going", "not_going"), strict=True):
        if block is blocks[1]:
            builder.operator("logical_not", {"X": ["going"]}, {"Out": ["not_going"]})
        op = builder.block.ops.add(type="conditional_block")
        op.inputs.add(parameter="Cond", arguments=[condition])
        op.attrs.add(name="sub_block", type=8, block_idx=block.idx)
    builder.operator("cast", {"X": ["going"]}, {"Out": ["mask"]})
    builder.operator("select_input", {"Mask": ["mask"], "X": ["x"]}, {"Out": ["y"]})
    with pytest.raises(
        InvalidProgramError, match="select_input selects from 1 variables, expected"
    ):
        read(builder)
