"""program_desc: old and special forms of operators become plain ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported
from tests.unit.frontend.desc_builder import DescBuilder, constants, read, text


@pytest.mark.parametrize(
    ("dims", "axis", "aligned"), [((3,), 1, [3, 1]), ((2, 3), 0, [2, 3, 1]), ((2,), 0, [2, 1, 1])]
)
def test_an_axis_aligns_the_second_operand(
    builder: DescBuilder, dims: Sequence[int], axis: int, aligned: Sequence[int]
) -> None:
    builder.variable("b", dims, is_feed=True)
    builder.operator("elementwise_mul", {"X": ["x"], "Y": ["b"]}, {"Out": ["y"]}, {"axis": axis})
    _, reshape, multiply = read(builder)
    assert constants(reshape) == {"shape": aligned}
    assert dialect.dims_of(reshape.outputs[0]) == aligned
    assert multiply.op_type == "multiply"
    assert multiply.inputs[1] is reshape.outputs[0]


@pytest.mark.parametrize("axis", [-1, 1])
def test_trailing_dimensions_need_no_alignment(builder: DescBuilder, axis: int) -> None:
    builder.operator("elementwise_add", {"X": ["x"], "Y": ["w"]}, {"Out": ["y"]}, {"axis": axis})
    assert text(read(builder)) == ["y = add(x, w)"]


@pytest.mark.parametrize(
    ("x", "columns", "y", "rows", "shapes"),
    [
        ((5, 12), 1, (12, 7), 1, []),
        ((2, 3, 4), 2, (4, 7), 1, []),
        ((5, 3, 4), 1, (12, 7), 1, [[5, 12]]),
        ((-1, 3, 4), 1, (12, 7), 1, [[-1, 12]]),
        ((5, 12), 1, (3, 4, 7), 2, [[12, 7]]),
        ((5, 12), 1, (12, 7, 2), 1, [[12, 14], [5, 7, 2]]),
        ((2, 3, 2, 2), 2, (4, 7), 1, [[6, 4], [2, 3, 7]]),
    ],
)
def test_mul_is_a_product_of_matrices(
    x: Sequence[int], columns: int, y: Sequence[int], rows: int, shapes: Sequence[Sequence[int]]
) -> None:
    builder = DescBuilder()
    builder.variable("x", x, is_feed=True)
    builder.variable("y", y, is_feed=True)
    builder.variable("out", [*x[:columns], *y[rows:]])
    attributes = {"x_num_col_dims": columns, "y_num_col_dims": rows}
    builder.operator("mul", {"X": ["x"], "Y": ["y"]}, {"Out": ["out"]}, attributes)
    graph = read(builder)
    reshapes = [constants(node)["shape"] for node in graph if node.op_type == "reshape"]
    assert reshapes == [list(shape) for shape in shapes]
    (product,) = (node for node in graph if node.op_type == "matmul")
    values = {
        str(value.name): np.ones([abs(dim) for dim in dialect.dims_of(value)])
        for value in product.inputs
        if value is not None
    }
    shape = np.matmul(*values.values()).shape
    assert list(shape) == [abs(dim) for dim in dialect.dims_of(product.outputs[0])]
    assert list(graph)[-1].outputs[0].name == "out"


def test_the_first_matmul_scales_its_product(builder: DescBuilder) -> None:
    attributes = {"transpose_Y": True, "transpose_X": False, "alpha": 0.125}
    builder.operator("matmul", {"X": ["x"], "Y": ["w"]}, {"Out": ["y"]}, attributes)
    product, _, scale = read(builder)
    assert (product.op_type, dialect.attribute(product, "transpose_y")) == ("matmul", 1)
    assert scale.inputs[0] is product.outputs[0]
    assert constants(scale) == {"scale": [0.125]}
    assert scale.outputs[0].name == "y"


def test_the_first_lookup_table_takes_a_column_of_ids(builder: DescBuilder) -> None:
    builder.variable("ids", (5, 1), "int64", is_feed=True)
    builder.operator("lookup_table", {"W": ["w"], "Ids": ["ids"]}, {"Out": ["y"]})
    _, squeeze, embedding = read(builder)
    assert (squeeze.op_type, constants(squeeze)) == ("squeeze", {"axis": [-1]})
    assert dialect.dims_of(squeeze.outputs[0]) == [5]
    assert [value.name for value in embedding.inputs if value is not None][1] == "w"
    assert dialect.attribute(embedding, "padding_idx") == -1


def test_the_first_one_hot_takes_a_column_of_ids(builder: DescBuilder) -> None:
    builder.variable("ids", (5, 1), "int64", is_feed=True)
    builder.operator("one_hot", {"X": ["ids"]}, {"Out": ["y"]}, {"depth": 7})
    nodes = [node for node in read(builder) if node.op_type not in ("full", "full_int_array")]
    assert [node.op_type for node in nodes] == ["squeeze", "one_hot"]
    assert constants(nodes[1]) == {"num_classes": [7]}


@pytest.mark.parametrize(
    ("old", "attributes", "expected", "name", "numbers"),
    [
        ("expand", {"expand_times": [2, 1, 1]}, "tile", "repeat_times", [2, 1, 1]),
        ("flatten", {"axis": 1}, "reshape", "shape", [2, 12]),
        ("flatten2", {"axis": 2}, "reshape", "shape", [6, 4]),
        ("flatten2", {"axis": 0}, "reshape", "shape", [1, 24]),
        ("reduce_sum", {"reduce_all": True, "dim": [1]}, "sum", "axis", []),
        ("fill_zeros_like", {}, "full_like", "value", [0.0]),
    ],
)
def test_an_old_form_becomes_a_plain_operator(
    builder: DescBuilder,
    old: str,
    attributes: Mapping[str, Any],
    expected: str,
    name: str,
    numbers: Sequence[float],
) -> None:
    builder.operator(old, {"X": ["x"]}, {"Out": ["y"]}, attributes)
    *_, node = read(builder)
    assert node.op_type == expected
    assert constants(node) == {name: numbers}


@pytest.mark.parametrize("type", ["cross_entropy", "cross_entropy2"])
def test_a_loss_of_probabilities_is_one_without_softmax(builder: DescBuilder, type: str) -> None:
    builder.variable("label", (2, 3, 1), "int64", is_feed=True)
    builder.operator(type, {"X": ["x"], "Label": ["label"]}, {"Y": ["y"]}, {"ignore_index": 5})
    (node,) = read(builder)
    assert node.op_type == "cross_entropy_with_softmax"
    assert dialect.attribute(node, "use_softmax") == 0
    assert dialect.attribute(node, "ignore_index") == 5
    assert node.outputs[1].name == "y"


def test_a_written_value_is_exact(builder: DescBuilder) -> None:
    attributes = {"shape": [1], "dtype": 3, "value": 16777216.0, "str_value": "16777217"}
    builder.operator("fill_constant", {}, {"Out": ["y"]}, attributes)
    (node,) = read(builder)
    assert dialect.attribute(node, "dtype") == "int64"
    assert dialect.attribute(node, "value") == pytest.approx(16777217.0, abs=0)


def test_a_written_value_that_is_no_number_is_refused(builder: DescBuilder) -> None:
    attributes = {"shape": [1], "dtype": 23, "value": 0.0, "str_value": "1+2j"}
    builder.operator("fill_constant", {}, {"Out": ["y"]}, attributes)
    with pytest.raises(NotSupported, match=r"str_value '1\+2j' is no real number"):
        read(builder)


def test_a_constant_of_tensors_is_computed(builder: DescBuilder) -> None:
    builder.variable("value", (1,), is_feed=True)
    builder.operator(
        "fill_constant", {"ValueTensor": ["value"]}, {"Out": ["y"]}, {"shape": [2], "dtype": 5}
    )
    *_, node = read(builder)
    assert node.op_type == "full_with_tensor"
    assert dialect.operand(node, "value") is not None
    assert constants(node) == {"shape": [2]}


@pytest.mark.parametrize(
    ("version", "end", "expected"),
    [(2_006_002, -1, -(2**31)), (2_006_002, -5, 0), (2_006_002, -2, -2), (3_000_000, -5, -5)],
)
def test_paddle_2_slices_backwards_in_its_own_way(version: int, end: int, expected: int) -> None:
    builder = DescBuilder(version)
    builder.variable("x", (4,), is_feed=True)
    builder.variable("y", (4,))
    attributes = {"axes": [0], "starts": [3], "ends": [end], "strides": [-1]}
    builder.operator("strided_slice", {"Input": ["x"]}, {"Out": ["y"]}, attributes)
    *_, node = read(builder)
    assert constants(node) == {"starts": [3], "ends": [expected], "strides": [-1]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, (-5.0, 7.0)), ({"a": -1.0, "b": 2.0}, (-1.0, 2.0))],
    ids=["paddle 2", "paddle 3"],
)
def test_paddle_2_truncates_at_two_standard_deviations(
    builder: DescBuilder, given: dict[str, float], expected: tuple[float, float]
) -> None:
    attributes = {"shape": [2], "mean": 1.0, "std": 3.0, "seed": 0, "dtype": 5, **given}
    builder.operator("truncated_gaussian_random", {}, {"Out": ["y"]}, attributes)
    (node,) = read(builder)
    assert (dialect.attribute(node, "a"), dialect.attribute(node, "b")) == expected


@pytest.mark.parametrize(
    ("given", "bounds"),
    [({}, (-128, 127)), ({"bit_length": 4}, (-8, 7)), ({"qmin": -3, "qmax": 3}, (-3, 3))],
    ids=str,
)
def test_bits_become_bounds(
    builder: DescBuilder, given: dict[str, int], bounds: tuple[int, int]
) -> None:
    _quantisation(builder, "quantize_linear", "float32", given)
    (node,) = read(builder)
    assert (dialect.attribute(node, "qmin"), dialect.attribute(node, "qmax")) == bounds


def test_whole_numbers_are_cast_before_their_scale_is_taken(builder: DescBuilder) -> None:
    _quantisation(builder, "dequantize_linear", "int32", {"quant_axis": 1})
    cast, node = read(builder)
    assert (cast.op_type, dialect.attribute(cast, "dtype")) == ("cast", "float32")
    assert dialect.operand(node, "x") is cast.outputs[0]


def _quantisation(builder: DescBuilder, kind: str, dtype: str, attributes: dict[str, int]) -> None:
    for name, dims, of in (("q", (2, 3), dtype), ("s", (3,), "float32"), ("z", (1,), "float32")):
        builder.variable(name, dims, of, is_feed=True)
    builder.variable("r", (2, 3))
    inputs = {"X": ["q"], "Scale": ["s"], "ZeroPoint": ["z"]}
    builder.operator(kind, inputs, {"Y": ["r"]}, attributes)


def test_the_tree_of_classes_does_not_write_its_weight(builder: DescBuilder) -> None:
    builder.variable("x", (2, 3), is_feed=True)
    builder.variable("n", (2, 1), "int64", is_feed=True)
    builder.variable("w", (4, 3), persistable=True, is_parameter=True)
    builder.variable("y", (2, 1))
    inputs = {"X": ["x"], "Label": ["n"], "W": ["w"]}
    outputs = {"Out": ["y"], "W_Out": ["w"]}
    builder.operator("hierarchical_sigmoid", inputs, outputs, {"num_classes": 5})
    (node,) = read(builder)
    assert [str(value.name) for value in node.outputs if str(value.name) in ("y", "w")] == ["y"]


def test_the_rank_loss_is_written_out(builder: DescBuilder) -> None:
    for name in ("label", "left", "right"):
        builder.variable(name, (4, 1), is_feed=True)
    builder.variable("loss", (4, 1))
    inputs = {"Label": ["label"], "Left": ["left"], "Right": ["right"]}
    builder.operator("rank_loss", inputs, {"Out": ["loss"]})
    first, soft, taken, last = read(builder)
    assert [node.op_type for node in (first, soft, taken, last)] == [
        "subtract", "softplus", "multiply", "subtract",
    ]  # fmt: skip
    assert [str(value.name) for value in first.inputs if value] == ["left", "right"]
    assert soft.inputs[0] is first.outputs[0] and taken.inputs[1] is first.outputs[0]
    assert str(taken.inputs[0] and taken.inputs[0].name) == "label"
    assert list(last.inputs) == [soft.outputs[0], taken.outputs[0]]
    assert str(last.outputs[0].name) == "loss"


def _data_norm(builder: DescBuilder, **attributes: Any) -> None:
    builder.variable("x", (8, 3), is_feed=True)
    for name in ("BatchSize", "BatchSum", "BatchSquareSum", "scale_w", "bias", "Means", "Scales"):
        builder.variable(name, (3,))
    builder.variable("y", (8, 3))
    statistics = {name: [name] for name in ("BatchSize", "BatchSum", "BatchSquareSum")}
    if attributes.get("enable_scale_and_shift"):
        statistics |= {"scale_w": ["scale_w"], "bias": ["bias"]}
    outputs = {"Y": ["y"], "Means": ["Means"], "Scales": ["Scales"]}
    builder.operator("data_norm", {"X": ["x"], **statistics}, outputs, attributes)


def test_data_norm_is_written_out(builder: DescBuilder) -> None:
    _data_norm(builder, epsilon=1e-5, slot_dim=-1, enable_scale_and_shift=True)
    nodes = read(builder)
    assert [node.op_type for node in nodes] == [
        "divide", "divide", "sqrt", "subtract", "multiply", "multiply", "add",
    ]  # fmt: skip
    assert [str(v.name) for v in nodes[0].inputs if v] == ["BatchSum", "BatchSize"]
    assert [str(v.name) for v in nodes[1].inputs if v] == ["BatchSize", "BatchSquareSum"]
    assert [str(nodes[at].outputs[0].name) for at in (0, 2, 6)] == ["Means", "Scales", "y"]


def test_data_norm_of_slots_is_refused(builder: DescBuilder) -> None:
    _data_norm(builder, slot_dim=2)
    with pytest.raises(NotSupported, match="data_norm.*: slot_dim 2 skips slots"):
        read(builder)


def test_training_of_data_norm_is_refused(builder: DescBuilder) -> None:
    builder.operator("data_norm_grad", {}, {})
    with pytest.raises(NotSupported, match="gradients that are no derivatives.*batch_norm"):
        read(builder)


def test_padded_weights_of_fc_lose_their_last_rows_and_columns() -> None:
    builder = DescBuilder()
    builder.variable("x", (5, 12), is_feed=True)
    builder.variable("w", (16, 11), is_feed=True)
    builder.variable("out", (5, 7))
    slots: dict[str, Sequence[str]] = {"Input": ["x"], "W": ["w"]}
    builder.operator("fc", slots, {"Out": ["out"]}, {"padding_weights": True})
    cut, product = (node for node in read(builder) if node.op_type in ("slice", "matmul"))
    assert (constants(cut)["starts"], constants(cut)["ends"]) == ([0, 0], [12, 7])
    assert dialect.dims_of(cut.outputs[0]) == [12, 7]
    assert product.inputs[1] is cut.outputs[0]


def test_a_bias_makes_another_operator_of_a_transposed_convolution() -> None:
    builder = DescBuilder()
    builder.variable("x", (2, 4, 5, 5), is_feed=True)
    builder.variable("w", (4, 3, 3, 3), is_feed=True)
    builder.variable("b", (3,), is_feed=True)
    builder.variable("y", (2, 3, 7, 7))
    slots: dict[str, Sequence[str]] = {"Input": ["x"], "Filter": ["w"]}
    builder.operator("conv2d_transpose", {**slots, "Bias": ["b"]}, {"Output": ["y"]})
    assert text(read(builder)) == ["y = conv2d_transpose_bias(x, w, b)"]


@pytest.mark.parametrize(
    ("layout", "dims", "scale", "expected"),
    [
        ("NCHW", (2, 3, 5, 6), 1.7, {"out_h": 8, "out_w": 10}),
        ("NHWC", (2, 5, 6, 3), 0.5, {"out_h": 2, "out_w": 3}),
        ("NCHW", (2, 3, 5, 6), 0.0, {"out_h": 4, "out_w": 0}),
    ],
)
def test_the_scale_of_the_first_interpolation_is_a_size(
    layout: str, dims: Sequence[int], scale: float, expected: Mapping[str, int]
) -> None:
    builder = DescBuilder()
    builder.variable("x", dims, is_feed=True)
    builder.variable("y", dims)
    attributes = {"data_layout": layout, "scale": scale, "out_h": 4}
    builder.operator("nearest_interp", {"X": ["x"]}, {"Out": ["y"]}, attributes)
    (node,) = read(builder)
    assert node.op_type == "nearest_interp"
    assert {name: dialect.attribute(node, name) for name in expected} == expected
    assert list(dialect.attribute(node, "scale")) == []


def test_the_first_interpolation_needs_the_size_it_scales() -> None:
    builder = DescBuilder()
    builder.variable("x", (2, 3, -1, 6), is_feed=True)
    builder.variable("y", (2, 3, -1, 12))
    builder.operator("bilinear_interp", {"X": ["x"]}, {"Out": ["y"]}, {"scale": 2.0})
    with pytest.raises(NotSupported, match=r"bilinear_interp.*scale 2.0 of an image whose size is"):
        read(builder)


def test_backwards_from_a_place_that_is_computed_is_refused() -> None:
    builder = DescBuilder()
    builder.variable("x", (4, 6), is_feed=True)
    for name in ("start", "end"):
        builder.variable(name, (1,), "int64", is_feed=True)
    builder.variable("y", (-1, 6))
    builder.operator(
        "strided_slice",
        {"Input": ["x"], "StartsTensorList": ["start"], "EndsTensorList": ["end"]},
        {"Out": ["y"]},
        {"axes": [0], "starts": [-1], "ends": [-1], "strides": [-1]},
    )
    with pytest.raises(
        NotSupported, match=r"strided_slice.*: strides \[-1\] with bounds that are "
    ):
        read(builder)
