"""GraphTransformer: types, constants, training forms and unused inputs of ONNX models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception

Transformer = popart.GraphTransformer


def _tensor(name: str, numbers: Any, dtype: Any) -> onnx.TensorProto:
    # Older releases of onnx take no array of bfloat16.
    return ir.to_proto(ir.Tensor(np.asarray(numbers, dtype), name=name))


def _model(dtype: Any, numbers: Any, constant: Any = None) -> onnx.ModelProto:
    """``y = x + w``; plus a constant `c`, where there is one. `w` is an input too."""
    weight = _tensor("w", numbers, dtype)
    kind, shape = weight.data_type, list(weight.dims)
    x, w, y = (helper.make_tensor_value_info(n, kind, shape) for n in "xwy")
    nodes = [helper.make_node("Add", ["x", "w"], ["y" if constant is None else "s"])]
    if constant is not None:
        value = _tensor("c", constant, dtype)
        nodes.insert(0, helper.make_node("Constant", [], ["c"], value=value))
        nodes.append(helper.make_node("Add", ["s", "c"], ["y"]))
    graph = helper.make_graph(nodes, "graph", [x, w], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


def _changed(model: onnx.ModelProto, change: Callable[[Any], object]) -> onnx.ModelProto:
    transformer = Transformer(model.SerializeToString())
    change(transformer)
    made = onnx.load_model_from_string(transformer.getModelProto())
    onnx.checker.check_model(made)
    return made


def _types(graph: onnx.GraphProto) -> set[int]:
    """The element types of all that a graph tells of."""
    told = {info.type.tensor_type.elem_type for info in (*graph.input, *graph.output)}
    held = {tensor.data_type for tensor in graph.initializer}
    of_constants = {
        a.t.data_type for node in graph.node for a in node.attribute if a.type == a.TENSOR
    }
    return told | held | of_constants


@pytest.mark.parametrize(
    ("method", "source", "target"),
    [
        ("convertFloatsToHalfs", np.float32, np.float16),
        ("convertDoublesToFloats", np.float64, np.float32),
        ("convertDoublesToHalfs", np.float64, np.float16),
        ("convertBFloats16ToFloat32", ml_dtypes.bfloat16, np.float32),
        ("convertUINT8ToINT32", np.uint8, np.int32),
        ("convertUINT16ToINT32", np.uint16, np.int32),
        ("convertINT8ToINT32", np.int8, np.int32),
        ("convertINT16ToINT32", np.int16, np.int32),
        ("convertINT64ToINT32", np.int64, np.int32),
    ],
)
def test_types_are_converted_everywhere(method: str, source: Any, target: Any) -> None:
    numbers = [1, 2, 100] if np.dtype(source).kind in "iu" else [0.1, 2049.0, -3.0]
    numbers = np.asarray(numbers, source)
    model = _model(source, numbers, numbers[::-1])
    graph = _changed(model, lambda transformer: getattr(transformer, method)()).graph
    assert _types(graph) == {helper.np_dtype_to_tensor_dtype(np.dtype(target))}
    weight = numpy_helper.to_array(graph.initializer[0])
    constant = numpy_helper.to_array(graph.node[0].attribute[0].t)
    np.testing.assert_array_equal(weight, numbers.astype(target))
    np.testing.assert_array_equal(constant, numbers[::-1].astype(target))


def test_other_types_stay() -> None:
    model = _model(np.int32, [1, 2])
    made = _changed(model, lambda transformer: transformer.convertFloatsToHalfs())
    assert _types(made.graph) == {onnx.TensorProto.INT32}


def test_numbers_beyond_the_new_type() -> None:
    large = _changed(
        _model(np.float32, [1e6]), lambda transformer: transformer.convertFloatsToHalfs()
    )
    assert np.isposinf(numpy_helper.to_array(large.graph.initializer[0])).all()
    transformer = Transformer(_model(np.int64, [2**40, -(2**40), 7]).SerializeToString())
    before = transformer.getModelProto()
    with pytest.raises(
        popart_exception, match=r"number is too large\. If .* 'w' holds -109951162777"
    ):
        transformer.convertINT64ToINT32()
    assert transformer.getModelProto() == before
    transformer.convertINT64ToINT32(clip=True)
    made = onnx.load_model_from_string(transformer.getModelProto())
    np.testing.assert_array_equal(
        numpy_helper.to_array(made.graph.initializer[0]), [2**31 - 1, -(2**31), 7]
    )


def test_types_inside_subgraphs() -> None:
    inner = _model(np.float32, [1.5]).graph
    body = helper.make_graph(
        [helper.make_node("Add", ["x", "v"], ["z"])],
        "then",
        [],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.float32([2.5]), "v")],
    )
    condition = helper.make_tensor_value_info("b", onnx.TensorProto.BOOL, [])
    node = helper.make_node("If", ["b"], ["y"], then_branch=body, else_branch=body)
    graph = helper.make_graph([node], "graph", [inner.input[0], condition], [inner.output[0]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    transformer = Transformer(model.SerializeToString())
    transformer.convertFloatsToHalfs()
    made = onnx.load_model_from_string(transformer.getModelProto()).graph
    for attribute in made.node[0].attribute:
        assert _types(attribute.g) == {onnx.TensorProto.FLOAT16}


def test_initializers_become_constants() -> None:
    made = _changed(
        _model(np.float32, [1, 2]),
        lambda transformer: transformer.convertInitializersToConstants(["w"]),
    )
    assert [node.op_type for node in made.graph.node] == ["Constant", "Add"]
    assert not made.graph.initializer and [x.name for x in made.graph.input] == ["x"]
    assert made.graph.node[0].output == ["w"]
    np.testing.assert_array_equal(numpy_helper.to_array(made.graph.node[0].attribute[0].t), [1, 2])
    with pytest.raises(popart_exception, match="TensorId z not in the model initalizers"):
        Transformer(made.SerializeToString()).convertInitializersToConstants(["z"])


@pytest.mark.parametrize(
    ("dtype", "becomes"), [(np.int64, True), (np.int32, True), (np.float32, False)]
)
def test_initializers_of_integers_become_constants(dtype: Any, becomes: bool) -> None:
    made = _changed(
        _model(dtype, [1, 2]),
        lambda transformer: transformer.convertAllFixedPointInitializersToConstants(),
    )
    assert (made.graph.node[0].op_type == "Constant") is becomes


def test_initializers_of_truth_values_become_constants() -> None:
    model = _model(bool, [True, False])
    model.graph.node[0].op_type = "And"
    transformer = Transformer(model.SerializeToString())
    transformer.convertAllFixedPointInitializersToConstants()
    made = onnx.load_model_from_string(transformer.getModelProto())
    assert [node.op_type for node in made.graph.node] == ["Constant", "And"]


def test_batch_norms_of_training() -> None:
    names = ["x", "scale", "b", "mean", "var"]
    shapes = [[2, 3, 4], [3], [3], [3], [3]]
    infos = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    nodes = [
        helper.make_node("BatchNormalization", names, ["m"]),
        helper.make_node("BatchNormalization", ["m", *names[1:]], ["y"]),
        helper.make_node("Identity", ["y"], ["m_statistic_1"]),
    ]
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3, 4])
    graph = helper.make_graph(nodes, "graph", infos, [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    made = _changed(model, lambda transformer: transformer.prepareNodesForTraining())
    outputs = [name for node in made.graph.node for name in node.output]
    assert [len(node.output) for node in made.graph.node] == [5, 5, 1]
    assert len(set(outputs)) == 11 and outputs[0] == "m" and outputs[5] == "y"


def test_unused_inputs_are_removed() -> None:
    model = _model(np.float32, [1, 2])
    model.graph.node[0].input[1] = "x"
    made = _changed(model, lambda transformer: transformer.removeUnusedInputs())
    assert [x.name for x in made.graph.input] == ["x"] and not made.graph.initializer
    model.graph.output.append(model.graph.input[1])
    made = _changed(model, lambda transformer: transformer.removeUnusedInputs())
    assert [x.name for x in made.graph.input] == ["x", "w"] and len(made.graph.initializer) == 1


def test_initializers_in_a_file(tmp_path: Path) -> None:
    transformer = Transformer(_model(np.float32, [1, 2]).SerializeToString())
    path = tmp_path / "weights"
    for ids, what in (
        (["x"], "Tensor 'x' is not an initializer of the model"),
        (["w", "no"], "Tensor 'no' is not an initializer"),
    ):
        with pytest.raises(popart_exception, match=what):
            transformer.saveInitializersExternally(ids, str(path))
        assert not path.exists()
    with pytest.raises(popart_exception, match="parent directory does not exist"):
        transformer.saveInitializersExternally(["w"], str(tmp_path / "none" / "weights"))
    transformer.saveInitializersExternally(["w"], str(path))
    np.testing.assert_array_equal(np.fromfile(path, np.float32), [1, 2])
    proto = onnx.load_model_from_string(transformer.getModelProto())
    entries = {entry.key: entry.value for entry in proto.graph.initializer[0].external_data}
    assert entries == {"location": str(path), "offset": "0", "length": "8"}
    with pytest.raises(popart_exception, match="Tensor 'w' already has an external data_location"):
        transformer.saveInitializersExternally(["w"], str(path))
    empty = Transformer(_model(np.float32, np.zeros([0])).SerializeToString())
    with pytest.raises(popart_exception, match="Tensor 'w' has no data to save externally"):
        empty.saveInitializersExternally(["w"], str(path))


def test_a_session_takes_what_it_gives() -> None:
    transformer = Transformer(_model(np.float64, [1.5, 2.5], [0.5, 0.25]).SerializeToString())
    transformer.convertDoublesToFloats()
    session = popart.InferenceSession(
        transformer.getModelProto(),
        popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.float32([1, 2])}, anchors))
    np.testing.assert_array_equal(anchors["y"], np.float32([3, 4.75]))
