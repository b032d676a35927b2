"""The Builder: tensor ids, arity and type errors, scopes, the serialised model."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from paddle_ipu.errors import NotSupported, popart_exception
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.enums import (
    DataType,
    InitType,
    ReductionType,
)
from paddle_ipu.popart.tensorinfo import TensorInfo

OPSETS = {"ai.onnx": 11, "ai.graphcore": 1}


@pytest.fixture
def builder() -> Builder:
    return Builder(opsets=OPSETS)


def test_ids_of_inputs_variables_and_outputs(builder: Builder) -> None:
    assert builder.addInputTensor(TensorInfo("FLOAT", [2, 3])) == "input"
    assert builder.addInputTensor("FLOAT", [2, 3]) == "input/1"
    assert builder.addInputTensor("INT32", [1], debugContext="tokens") == "tokens"
    assert builder.addInitializedInputTensor(np.ones((3, 4), np.float32)) == "init_input"
    assert builder.addInitializedInputTensor(np.ones(4, np.float32)) == "init_input/1"
    assert builder.addInitializedInputTensor(np.ones(4, np.float32), "weight") == "weight"
    x = builder.aiOnnx.matmul(["input", "init_input"], "named")
    assert x == "MatMul:0"
    assert builder.aiOnnx.sin(["input"]) == "Sin:0"
    assert builder.aiOnnx.sin(["input"]) == "Sin:0/1"
    assert builder.aiOnnx.sin(["input"]) == "Sin:0/2"
    assert builder.aiOnnx.split([x], 2, 1) == ["Split:0", "Split:1"]
    assert builder.aiOnnx.split([x], 2, 1) == ["Split:0/1", "Split:1/1"]
    assert builder.aiGraphcore.geluerf([x]) == "GeluErf:0"
    assert builder.aiOnnx.constant(np.zeros(1, np.float32)) == "Constant:0"
    assert builder.node_of(x).name == "named"
    assert builder.node_of("Sin:0").name == ""


def test_an_id_taken_by_the_user_is_stepped_over(builder: Builder) -> None:
    builder.addInputTensor("FLOAT", [1], "Sin:0")
    builder.addInputTensor("FLOAT", [1], "Sin:0/1")
    assert builder.aiOnnx.sin(["Sin:0"]) == "Sin:0/2"


def test_name_scopes_prefix_ids_and_node_names(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    with builder.nameScope("encoder"):
        assert builder.getNameScope() == "encoder/"
        with builder.nameScope("layer0"):
            y = builder.aiOnnx.add([x, x])
            z = builder.aiOnnx.add([x, x], "sum")
        assert builder.addInputTensor("FLOAT", [2]) == "encoder/input"
    assert (y, z) == ("encoder/layer0/Add:0", "encoder/layer0/Add:0/1")
    assert builder.node_of(y).name == "encoder/layer0/Add"
    assert builder.node_of(z).name == "encoder/layer0/sum"
    assert builder.aiOnnx.add([x, x]) == "Add:0"
    assert builder.getNameScope("a") == "a"


def test_a_variable_keeps_the_callers_array(builder: Builder) -> None:
    weight = np.ones((2, 2), np.float32)
    name = builder.addInitializedInputTensor(weight)
    value = builder.model.graph.initializers[name]
    assert value.is_graph_input()
    assert value.const_value is not None
    assert value.const_value.numpy() is weight
    strided = np.ones((4, 4), np.float32)[:, ::2]
    other = builder.model.graph.initializers[builder.addInitializedInputTensor(strided)]
    assert other.const_value is not None
    assert other.const_value.numpy().flags.c_contiguous
    np.testing.assert_array_equal(other.const_value.numpy(), strided)
    with pytest.raises(TypeError, match="initVal must be a numpy array, got list"):
        builder.addInitializedInputTensor([1.0])  # type: ignore[arg-type]


def test_a_scalar_keeps_its_rank(builder: Builder) -> None:
    variable = builder.addInitializedInputTensor(np.array(2.0, np.float32))
    constant = builder.aiOnnx.constant(np.array(3.0, np.float32))
    assert builder.getTensorShape(variable) == builder.getTensorShape(constant) == []


def test_queries(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT16", [2, 3])
    w = builder.addInitializedInputTensor(np.ones((3, 4), np.float16))
    y = builder.aiOnnx.matmul([x, w])
    z = builder.aiOnnx.equal([y, y])
    builder.addOutputTensor(z)
    assert builder.getInputTensorIds() == [x, w]
    assert builder.getTrainableTensorIds() == [w]
    assert builder.getOutputTensorIds() == [z]
    assert builder.getValueTensorIds() == [y, z]
    assert builder.getTensorShape(y) == [2, 4]
    assert builder.getTensorDtypeString(y) == "float16"
    assert builder.getTensorDtypeString(z) == "bool"
    assert builder.isInitializer(w)
    assert not builder.isInitializer(x)
    with pytest.raises(popart_exception, match="nothing is not an known tensor. Must be one of"):
        builder.getTensorShape("nothing")
    with pytest.raises(popart_exception, match="'input' is an input of the graph"):
        builder.node_of(x)


def test_arity_errors(builder: Builder) -> None:
    with pytest.raises(
        popart_exception, match=r"^Add has invalid number of inputs 1. Must be betwe"
    ):
        builder.aiOnnx.add(["input"])
    with pytest.raises(popart_exception, match=r"Must be between 2\.\.2$"):
        builder.aiOnnx.add(["a", "b", "c"])
    with pytest.raises(popart_exception, match=r"Sum has invalid .* 0. Must be between 1\.\.inf$"):
        builder.aiOnnx.sum([])
    x = builder.addInputTensor("FLOAT", [2])
    with pytest.raises(
        popart_exception,
        match=r"^Dropout has an invalid number of outputs 3. Must be between 0\.\.2$",
    ):
        builder.aiOnnx.dropout([x], 3)


def test_unknown_inputs(builder: Builder) -> None:
    with pytest.raises(
        popart_exception, match=r"^Unknown tensor 'x' \(there are no valid tensors yet\)\.$"
    ):
        builder.aiOnnx.sin(["x"])
    builder.addInputTensor("FLOAT", [1], "b")
    builder.addInputTensor("FLOAT", [1], "a")
    with pytest.raises(
        popart_exception, match=r"^Unknown tensor 'x' \(valid tensors are a, b\)\.$"
    ):
        builder.aiOnnx.sin(["x"])


def test_a_failed_call_leaves_the_graph_as_it_was(builder: Builder) -> None:
    a = builder.addInputTensor("FLOAT", [2, 3])
    with pytest.raises(popart_exception, match="contracting dimensions unequal"):
        builder.aiOnnx.matmul([a, a])
    assert builder.getValueTensorIds() == []
    b = builder.aiOnnx.transpose([a])
    assert builder.aiOnnx.matmul([a, b]) == "MatMul:0"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda o: o.add("ab"), "'args' must be a list of tensor ids"),
        (lambda o: o.add(["x", "x"], axis=1), "There is no argument 'axis'"),
        (lambda o: o.concat(["x"]), "'axis' is missing"),
        (lambda o: o.concat(["x"], 0, "n", 3), "At most 3 arguments"),
        (lambda o: o.concat(["x"], 0, axis=0), "'axis' is given twice"),
        (lambda o: o.concat(["x"], "0"), "'axis' must be of kind int, got '0'"),
        (lambda o: o.transpose(["x"], 0), "'perm' must be of kind ints, got 0"),
        (lambda o: o.split(["x"]), "'num_outputs' is missing"),
        (lambda o: o.split(["x"], "2"), "'num_outputs' must be a number of outputs"),
        (lambda o: o.sin(["x"], 3), "'debugContext' must be a string"),
        (lambda o: o.constant([1]), "'value' must be of kind tensor"),
        (lambda o: o.constant(np.ones(1), True), "Sparse constants are not supported"),
        (lambda o: o.cast(["x"], np.float32), "'to' must be of kind dtype"),
    ],
)
def test_wrong_arguments(builder: Builder, call: object, why: str) -> None:
    builder.addInputTensor("FLOAT", [2], "x")
    with pytest.raises(TypeError, match=why) as caught:
        call(builder.aiOnnx)  # type: ignore[operator]
    assert "(): incompatible function arguments. The following argument types are" in str(
        caught.value
    )


def test_an_operator_that_does_not_exist(builder: Builder) -> None:
    with pytest.raises(
        AttributeError, match=r"ai.onnx opset 11 has no operator method 'gather_nd'"
    ):
        builder.aiOnnx.gather_nd(["x"])


def test_opsets() -> None:
    builder = Builder()
    assert builder.aiOnnxOpset11 is builder.aiOnnx
    assert builder.aiGraphcore is builder.aiGraphcoreOpset1
    with pytest.raises(NotSupported, match=r"opset 5 of domain ai.onnx is not supported: PopART"):
        Builder(opsets={"ai.onnx": 5})
    with pytest.raises(NotSupported, match=r"opset 2 of domain ai.graphcore is not supported"):
        Builder(opsets={"ai.graphcore": 2})


def test_ai_onnx_without_a_choice_is_opset_10() -> None:
    builder = Builder()
    x = builder.addInputTensor("FLOAT", [2])
    builder.aiOnnx.sin([x])
    assert builder.aiOnnx is builder.aiOnnxOpset10
    assert builder.model.graph.opset_imports == {"": 10}


@pytest.mark.parametrize("opset", range(6, 12))
def test_one_opset_of_a_domain_for_a_builder(opset: int) -> None:
    builder = Builder(opsets={"ai.onnx": opset})
    x = builder.addInputTensor("FLOAT", [2])
    builder.aiOnnx.sin([x]) if opset > 6 else builder.aiOnnx.exp([x])
    assert getattr(builder, f"aiOnnxOpset{opset}") is builder.aiOnnx
    assert builder.model.graph.opset_imports == {"": opset}
    assert builder.model.ir_version == (3 if opset < 9 else 4)
    other = 6 if opset != 6 else 7
    with pytest.raises(
        RuntimeError,
        match=f"Invalid opset '{other}' selected. Opset for domain ai.onnx already defined as "
        f"{opset}",
    ):
        getattr(builder, f"aiOnnxOpset{other}")


def test_the_opset_of_an_imported_model_stays() -> None:
    builder = Builder(opsets={"ai.onnx": 9})
    builder.aiOnnx.sin([builder.addInputTensor("FLOAT", [2], "x")])
    again = Builder(builder.getModelProto())
    assert again.aiOnnx is again.aiOnnxOpset9
    with pytest.raises(RuntimeError, match="already defined as 9"):
        _ = again.aiOnnxOpset11


def test_defaults_are_written_and_empty_lists_are_not(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [1, 2, 4, 4])
    w = builder.addInitializedInputTensor(np.ones((2, 2, 3, 3), np.float32))
    conv = builder.node_of(builder.aiOnnx.conv([x, w], pads=[1, 1, 1, 1]))
    assert {name: attribute.value for name, attribute in conv.attributes.items()} == {
        "group": 1,
        "pads": (1, 1, 1, 1),
    }
    reduced = builder.node_of(builder.aiOnnx.reducemean([x], [1]))
    assert reduced.attributes["axes"].value == (1,)
    assert reduced.attributes["keepdims"].value == 1
    assert "axes" not in builder.node_of(builder.aiOnnx.reducemean([x])).attributes


def test_loss_attributes(builder: Builder) -> None:
    probs = builder.addInputTensor("FLOAT", [2, 3])
    labels = builder.addInputTensor("INT32", [2])
    loss = builder.aiGraphcore.nllloss([probs, labels], ReductionType.Sum, ignoreIndex=1)
    node = builder.node_of(loss)
    assert node.domain == "ai.graphcore"
    assert node.attributes["reduction"].value == "Sum"
    assert node.attributes["ignoreIndex"].value == 1
    assert node.attributes["inputIsLogProbability"].value == 0
    none = builder.node_of(builder.aiGraphcore.identityloss([probs], ReductionType.NoReduction))
    assert none.attributes["reduction"].value == "None"
    l1 = builder.node_of(builder.aiGraphcore.l1loss([probs], 0.5))
    assert l1.attributes["lambda"].value == 0.5
    assert l1.attributes["reduction"].value == "Mean"


def test_domains_of_nodes(builder: Builder) -> None:
    x = builder.addInputTensor("BOOL", [2])
    assert builder.node_of(builder.aiOnnx.logical_not([x])).domain == ""
    xor = builder.node_of(builder.aiPaddleIpuOpset1.logicalxor([x, x]))
    assert (xor.domain, xor.op_type) == ("ai.paddle_ipu", "LogicalXor")
    assert builder.model.graph.opset_imports == {"": 11, "ai.paddle_ipu": 1}


def test_an_operator_of_another_opset_than_the_models_is_refused(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    builder.model.graph.opset_imports["mine"] = 2
    with pytest.raises(
        popart_exception,
        match="Invalid opset 1 used to add an operation. Opset for domain mine already defined "
        "as 2",
    ):
        builder.customOp("One", 1, "mine", [x], {}, 1)


def _program(builder: Builder) -> str:
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    y = builder.aiOnnx.matmul([x, w])
    shape = builder.aiOnnx.constant(np.array([4, 2], np.int64))
    z = builder.aiOnnx.reshape([y, shape])
    with builder.virtualGraph(1):
        loss = builder.aiGraphcore.identityloss([builder.aiGraphcore.gelu([z])])
    builder.addOutputTensor(loss)
    return str(loss)


def test_the_model_is_valid_onnx(builder: Builder) -> None:
    _program(builder)
    builder.setGraphName("net")
    builder.embedReplicationFactor(2)
    proto = onnx.load_model_from_string(builder.getModelProto())
    onnx.checker.check_model(proto, full_check=False)
    assert proto.ir_version == 4
    assert {item.domain: item.version for item in proto.opset_import} == {
        "": 11,
        "ai.graphcore": 1,
    }
    assert [item.name for item in proto.graph.input] == ["x", "w"]
    assert [item.name for item in proto.graph.initializer] == ["w"]
    assert [node.op_type for node in proto.graph.node] == [
        "MatMul",
        "Constant",
        "Reshape",
        "Gelu",
        "IdentityLoss",
    ]
    assert proto.graph.name == "net"
    assert {item.key: item.value for item in proto.metadata_props} == {"__replicationFactor": "2"}
    shapes = {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in proto.graph.value_info
    }
    assert shapes["Reshape:0"] == [4, 2]


def test_a_model_goes_out_and_comes_back(builder: Builder, tmp_path: Path) -> None:
    loss = _program(builder)
    file = tmp_path / "model.onnx"
    builder.saveModelProto(str(file))
    for source in (builder.getModelProto(), str(file)):
        again = Builder(source, opsets=OPSETS)
        assert again.getInputTensorIds() == ["x", "w"]
        assert again.getOutputTensorIds() == [loss]
        assert again.getTensorShape("Reshape:0") == [4, 2]
        assert again.getInt64NodeAttribute("__ipu_number", {"Gelu:0"}) == 1
        assert again.aiOnnx.matmul(["x", "w"]) == "MatMul:0/1"


def test_nodes_of_one_name_are_numbered_when_serialised(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2], "x")
    for name in ("layer", "layer", "layer/1", "layer", ""):
        x = builder.aiOnnx.sin([x], name)
    proto = onnx.load_model_from_string(builder.getModelProto())
    names = [node.name for node in proto.graph.node]
    assert names == ["layer", "layer/2", "layer/1", "layer/3", ""]
    assert [node.name for node in builder.model.graph][:2] == ["layer", "layer"]


def test_an_imported_model_without_types_is_typed(builder: Builder) -> None:
    _program(builder)
    proto = onnx.load_model_from_string(builder.getModelProto())
    del proto.graph.value_info[:]
    again = Builder(proto.SerializeToString(), opsets=OPSETS)
    assert again.getTensorShape("Gelu:0") == [4, 2]


def test_a_newer_opset_is_refused() -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    infos = [onnx.helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", infos[:1], infos[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    with pytest.raises(
        popart_exception,
        match="Encountered ONNX opset version 13, Maximimum supported opset is 11, minimum 6",
    ):
        Builder(model.SerializeToString())


def test_initializers_go_to_an_external_file(builder: Builder, tmp_path: Path) -> None:
    a, b = np.arange(6, dtype=np.float32), np.arange(4, dtype=np.int32)
    ids = [builder.addInitializedInputTensor(array) for array in (a, b)]
    builder.addOutputTensor(builder.aiOnnx.identity([ids[0]]))
    file = tmp_path / "weights.bin"
    builder.saveInitializersExternally(ids, str(file))
    assert file.read_bytes() == a.tobytes() + b.tobytes()
    proto = onnx.load_model_from_string(builder.getModelProto())
    second = proto.graph.initializer[1]
    assert second.data_location == onnx.TensorProto.EXTERNAL
    assert {item.key: item.value for item in second.external_data} == {
        "location": str(file),
        "offset": "24",
        "length": "16",
    }
    value = builder.model.graph.initializers[ids[1]].const_value
    assert value is not None
    np.testing.assert_array_equal(value.numpy(), b)
    with pytest.raises(popart_exception, match="Tensor 'nope' is not an initializer"):
        builder.saveInitializersExternally(["nope"], str(file))


def test_custom_op(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    attributes = {"i": 1, "b": True, "f": 0.5, "s": "a", "is": [1], "fs": [0.5]}
    outputs = builder.customOp("Leaky", 1, "custom.ops", [x], attributes, 2, "mine")
    assert outputs == ["Leaky:0", "Leaky:1"]
    node = builder.node_of("Leaky:1")
    assert (node.domain, node.name) == ("custom.ops", "mine")
    assert node.attributes["b"].type == ir.AttributeType.INT
    assert builder.model.graph.opset_imports["custom.ops"] == 1
    with pytest.raises(popart_exception, match="is not known"):
        builder.aiOnnx.sin(["Leaky:0"])
    with pytest.raises(popart_exception, match="Invalid type provided in custom op attribute 'd'"):
        builder.customOp("Leaky", 1, "custom.ops", [x], {"d": {}})
    with pytest.raises(popart_exception, match="mismatched python list type .* attribute 'l'"):
        builder.customOp("Leaky", 1, "custom.ops", [x], {"l": [1, 0.5]})
    typed = builder.customOp("Gelu", 1, "ai.graphcore", [x], {})
    assert builder.getTensorShape(typed[0]) == [2]


def test_reshape_const(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 3])
    assert builder.getTensorShape(builder.reshape_const(builder.aiOnnx, [x], [3, 2])) == [3, 2]


def test_a_node_of_a_large_graph_takes_no_more_calls_than_the_first() -> None:
    builder = Builder(opsets=OPSETS)
    x = builder.addInputTensor("FLOAT", [4, 128, 64])
    w = builder.addInitializedInputTensor(np.ones((64, 64), np.float32))
    calls = [0]

    def count(frame: FrameType, event: str, argument: Any) -> None:
        calls[-1] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with builder.virtualGraph(0):
            for _ in range(100):
                h = builder.aiOnnx.add([builder.aiOnnx.matmul([x, w]), x])
                h = builder.reshape_const(builder.aiOnnx, [h], [4, 128, 4, 16])
                h = builder.aiOnnx.transpose([h], [0, 2, 1, 3])
                h = builder.aiOnnx.transpose([h], [0, 2, 1, 3])
                x = builder.reshape_const(builder.aiOnnx, [h], [4, 128, 64])
                calls.append(0)
    finally:
        sys.setprofile(before)
    assert len(builder.getValueTensorIds()) == 800
    assert sum(calls[50:100]) <= 1.05 * sum(calls[:50])
    assert sum(calls) < 400 * 800


def test_arguments_are_taken_as_pybind_takes_them() -> None:
    builder = Builder()
    x = builder.addInputTensor("FLOAT", [4, 6])
    for shape in (range(4, 7, 2), np.asarray([4, 6]), (np.int64(4), 6)):
        assert builder.getTensorShape(builder.addInputTensor("FLOAT", shape)) == [4, 6]
    for wrong in ("46", {4, 6}, 4):
        with pytest.raises(TypeError, match="addInputTensor"):
            builder.addInputTensor("FLOAT", wrong)
    total = builder.aiOnnx.reducesum(np.asarray([x]), axes=range(2), keepdims=False)
    assert builder.getTensorShape(total) == []
    low, high = np.array(-1, np.float16), np.float32(1)
    drawn = builder.aiOnnx.randomuniform((3, 1), low=low, high=high, dtype=10)
    assert builder.getTensorDtypeString(drawn) == "float16"
    for wrong in ("1", np.ones(1)):
        with pytest.raises(TypeError, match="'low' must be of kind float"):
            builder.aiOnnx.randomuniform((3, 1), low=wrong)
    for axes in ("01", {0, 1}, [0.0]):
        with pytest.raises(TypeError, match="'axes' must be of kind ints"):
            builder.aiOnnx.reducesum([x], axes)


def test_graphcores_init_and_reshape() -> None:
    builder = Builder()
    graphcore = builder.aiGraphcore
    kind = DataType.FLOAT, InitType.Zero
    made = [
        graphcore.init([3, 4], *kind, "named"),
        graphcore.init([3, 4], *kind, 0, "batched"),
        graphcore.init(shape=(3, 4), data_type=kind[0], init_type=kind[1], debugContext="last"),
    ]
    assert [node.name for node in builder.model.graph] == ["named", "batched", "last"]
    assert builder.getTensorShape(graphcore.reshape(made[0], [12])) == [12]
    with pytest.raises(TypeError, match=r"args: str, shape: ints.*'args' must be a tensor id"):
        graphcore.reshape([made[0]], shape=[12])
