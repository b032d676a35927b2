"""The Builder's annotations: placement, attributes, recomputation, memory, settings of inputs."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.enums import (
    ExchangeStrategy,
    RecomputeType,
    TensorStorage,
    TileSet,
)
from paddle_ipu.popart.options import InputSettings, TensorLocation
from paddle_ipu.popart.tensorinfo import TensorInfo

OPSETS = {"ai.onnx": 11, "ai.graphcore": 1}


@pytest.fixture
def builder() -> Builder:
    return Builder(opsets=OPSETS)


def test_placement_by_function_and_by_context(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 2])
    with builder.virtualGraph(1), builder.pipelineStage(2):
        assert builder.hasVirtualGraph()
        assert builder.getVirtualGraph() == 1
        assert builder.getPipelineStage() == 2
        with builder.virtualGraph(3):
            inner = builder.aiOnnx.sin([x])
        outer = builder.aiOnnx.sin([x])
    free = builder.aiOnnx.sin([x])
    assert builder.getVirtualGraph(inner) == 3
    assert builder.getVirtualGraph([outer]) == 1
    assert builder.getInt64NodeAttribute("__pipeline_stage", {inner}) == 2
    assert builder.getAllNodeAttributeNames({free}) == []
    builder.virtualGraph(free, 4)
    builder.pipelineStage(free, 5)
    builder.executionPhase(free, 6)
    assert builder.getVirtualGraph({free}) == 4
    assert builder.getInt64NodeAttribute("__execution_phase", {free}) == 6
    parts = builder.aiOnnx.split([x], 2)
    builder.virtualGraph(parts, 1)
    assert builder.getVirtualGraph(parts) == 1
    assert not builder.hasPipelineStage()
    for call, what in (
        (builder.getVirtualGraph, "Virtual graph"),
        (builder.getPipelineStage, "Pipeline stage"),
        (builder.getExecutionPhase, "Execution phase"),
    ):
        with pytest.raises(popart_exception, match=f"^{what} not set in current scope.$"):
            call()
    with pytest.raises(popart_exception, match=r"^Node already has attribute __ipu_number.$"):
        builder.virtualGraph(free, 4)
    with pytest.raises(TypeError, match="expected tensor id"):
        builder.virtualGraph(1.5)  # type: ignore[call-overload]


def test_a_context_ends_when_its_body_fails(builder: Builder) -> None:
    with pytest.raises(KeyError), builder.virtualGraph(1):
        raise KeyError
    assert not builder.hasVirtualGraph()


def test_node_attributes(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    y = builder.aiOnnx.sin([x])
    values = {"i": 1, "is": [1, 2], "f": 1.5, "fs": [1.5, 2.0], "s": "a", "ss": ["a", "b"]}
    for name, value in values.items():
        builder.addNodeAttribute(name, value, {y})
    assert builder.getAllNodeAttributeNames({y}) == list(values)
    assert builder.getInt64NodeAttribute("i", {y}) == 1
    assert builder.getInt64VectorNodeAttribute("is", {y}) == [1, 2]
    assert builder.getFloatNodeAttribute("f", {y}) == 1.5
    assert builder.getFloatVectorNodeAttribute("fs", {y}) == [1.5, 2.0]
    assert builder.getStringNodeAttribute("s", {y}) == "a"
    assert builder.getStringVectorNodeAttribute("ss", {y}) == ["a", "b"]
    assert builder.nodeHasAttribute("i", {y})
    builder.removeNodeAttribute("i", {y})
    assert not builder.nodeHasAttribute("i", {y})
    with pytest.raises(popart_exception, match=r"^Node does not have an attribute i.$"):
        builder.getInt64NodeAttribute("i", {y})
    with pytest.raises(
        popart_exception, match=r"^Cannot remove attribute i as it does not exist.$"
    ):
        builder.removeNodeAttribute("i", {y})
    for get, what in (
        (builder.getInt64NodeAttribute, "an integer"),
        (builder.getInt64VectorNodeAttribute, "an integer vector"),
        (builder.getFloatNodeAttribute, "a float"),
        (builder.getFloatVectorNodeAttribute, "a float vector"),
        (builder.getStringVectorNodeAttribute, "a string vector"),
    ):
        with pytest.raises(popart_exception, match=f"^Attribute s is not {what}.$"):
            get("s", {y})
    with pytest.raises(popart_exception, match=r"^Attribute f is not a string.$"):
        builder.getStringNodeAttribute("f", {y})


def test_numpys_numbers_are_attributes(builder: Builder) -> None:
    y = builder.aiOnnx.sin([builder.addInputTensor("FLOAT", [2])])
    for name, value in {
        "i": np.int64(3), "is": np.asarray([1, 2]), "range": range(2), "f": np.float32(0.5),
        "fs": (1, np.float16(2.5)), "s": np.str_("a"), "b": np.bool_(True),
    }.items():  # fmt: skip
        builder.addNodeAttribute(name, value, {y})
    assert builder.getInt64NodeAttribute("i", {y}) == 3
    assert builder.getInt64VectorNodeAttribute("is", {y}) == [1, 2]
    assert builder.getInt64VectorNodeAttribute("range", {y}) == [0, 1]
    assert builder.getFloatNodeAttribute("f", {y}) == 0.5
    assert builder.getFloatVectorNodeAttribute("fs", {y}) == [1, 2.5]
    assert builder.getStringNodeAttribute("s", {y}) == "a"
    assert builder.getInt64NodeAttribute("b", {y}) == 1
    for wrong in ({}, None, ["a", 1]):
        with pytest.raises(TypeError, match=r"^addNodeAttribute\(\): incompatible .* 'w' got "):
            builder.addNodeAttribute("w", wrong, {y})


def test_a_default_that_popart_leaves_out_can_be_added(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [3, 2, 4])
    weights = [builder.addInputTensor("FLOAT", [1, 5, size]) for size in (4, 5)]
    outputs = builder.aiOnnx.rnn([x, *weights], 2, activations=[])
    assert not builder.nodeHasAttribute("direction", outputs)
    assert builder.getAllNodeAttributeNames(outputs) == []
    with pytest.raises(popart_exception, match=r"^Node does not have an attribute direction.$"):
        builder.getStringNodeAttribute("direction", outputs)
    with pytest.raises(popart_exception, match=r"^Cannot remove attribute direction as it does"):
        builder.removeNodeAttribute("direction", outputs)
    builder.addNodeAttribute("direction", "forward", outputs)
    assert builder.getStringNodeAttribute("direction", outputs) == "forward"
    with pytest.raises(popart_exception, match=r"^Node already has attribute direction.$"):
        builder.addNodeAttribute("direction", "reverse", outputs)
    kept = builder.aiOnnx.leakyrelu([x], 0.3)
    assert builder.getAllNodeAttributeNames({kept}) == ["alpha"]
    counted = builder.aiOnnx.softmax([x])
    assert builder.getInt64NodeAttribute("axis", {counted}) == 1
    named = builder.customOp("LeakyRelu", 6, "ai.onnx", [x], {"alpha": 0.01})
    assert builder.nodeHasAttribute("alpha", named)


def test_an_empty_list_is_of_the_operators_kind(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [3, 2, 4])
    weights = [builder.addInputTensor("FLOAT", [1, 5, size]) for size in (4, 5)]
    outputs = builder.aiOnnx.rnn([x, *weights], 1)
    builder.addNodeAttribute("activations", [], outputs)
    builder.addNodeAttribute("activation_alpha", [], outputs)
    assert builder.getStringVectorNodeAttribute("activations", outputs) == []
    assert builder.getFloatVectorNodeAttribute("activation_alpha", outputs) == []
    with pytest.raises(popart_exception, match=r"only supports 1 activation, 0 were specified$"):
        Builder(builder.getModelProto())


def test_a_node_is_named_by_all_its_outputs(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    parts = builder.aiOnnx.split([x], 2)
    message = "Could not find a node with outputs {} . Must specify all outputs of a node".replace(
        "{} ", "Split:0"
    )
    with pytest.raises(popart_exception, match=message):
        builder.addNodeAttribute("a", 1, {parts[0]})
    with pytest.raises(TypeError, match="must be a set of tensor ids"):
        builder.addNodeAttribute("a", 1, "Split:0")


def test_recomputation_and_checkpoints(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    name = "__recompute_output_in_backward_pass"
    with builder.recomputeOutput(RecomputeType.Recompute):
        inside = builder.aiOnnx.sin([x])
    y = builder.aiOnnx.sin([x])
    builder.recomputeOutput(y, RecomputeType.Checkpoint)
    assert builder.getInt64NodeAttribute(name, {inside}) == 2
    assert builder.getInt64NodeAttribute(name, {y}) == 1
    z = builder.aiOnnx.sin([x])
    builder.recomputeOutputInBackwardPass(z)
    assert builder.getRecomputeOutputInBackwardPass(z)
    (kept,) = builder.checkpointOutput([z])
    node = builder.node_of(kept)
    assert (kept, node.op_type, node.name) == ("Identity:0", "Identity", "Checkpoint")
    assert builder.getInt64NodeAttribute(name, {kept}) == 1
    assert builder.getStringVectorNodeAttribute("__exclude_patterns", {kept}) == [
        "PreUniRepl",
        "PostNRepl",
    ]


def test_memory_annotations(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 2])
    y, other = builder.aiOnnx.matmul([x, x]), builder.aiOnnx.sin([x])
    builder.setAvailableMemoryProportion(y, 0.5)
    builder.setAvailableMemoryProportion({y}, 0.25)
    assert builder.getFloatNodeAttribute("__available_memory", {y}) == 0.25
    for wrong in (0.0, 1.5):
        with pytest.raises(popart_exception, match=r"availableMemoryProportion must be in \(0,1\]"):
            builder.setAvailableMemoryProportion(y, wrong)
    assert builder.getPartialsType(y) == "FLOAT"
    builder.setPartialsType(y, "HALF")
    assert builder.getPartialsType(y) == "HALF"
    with pytest.raises(
        popart_exception,
        match="setPartialsType should only be called on .*: Conv, MatMul; but was given: Sin",
    ):
        builder.setPartialsType(other, "HALF")
    builder.setSerializeMatMul({y}, "output_channels", 4, True)
    assert builder.getStringNodeAttribute("__serialize_matmul_mode", {y}) == "output_channels"
    assert builder.getInt64NodeAttribute("__serialize_matmul_factor", {y}) == 4
    assert builder.getInt64NodeAttribute("__serialize_matmul_precision", {y}) == 1
    with pytest.raises(popart_exception, match="Unsupported mat mul serialization mode 'rows'"):
        builder.setSerializeMatMul({y}, "rows")
    builder.setSerializeMatMul({other}, "none")
    with pytest.raises(
        popart_exception, match="only be called on convolutions but was given: Sin$"
    ):
        builder.setEnableConvDithering(other, 1)
    with pytest.raises(popart_exception, match="enableConvDithering must be a bool value"):
        builder.setEnableConvDithering(other, 2)
    location = TensorLocation(TensorStorage.OffChip)
    builder.outputTensorLocation(other, location)
    assert builder.getInt64VectorNodeAttribute("__output_tensor_location", {other}) == [
        1,
        0,
        0,
        0,
        0,
        0,
    ]
    builder.excludePatterns(other, ["InPlace"])
    assert builder.getStringVectorNodeAttribute("__exclude_patterns", {other}) == ["InPlace"]
    builder.setInplacePreferences(other, {"SinInplace": 2.0})
    assert builder.getFloatVectorNodeAttribute("__inplace_op_priorities", {other}) == [2.0]


def test_other_contexts(builder: Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    with (
        builder.schedulePriority(2.0),
        builder.outlineAttributes({"b": "1", "a": "2"}),
        builder.outlineAttributes({"a": "3", "c": 4}),
        builder.commGroup(1, 2),
    ):
        y = builder.aiOnnx.sin([x])
    assert builder.getFloatNodeAttribute("__schedule_priority", {y}) == 2.0
    # The outer value of "a" stands.
    assert builder.getStringVectorNodeAttribute("__outline", {y}) == [
        "a",
        "2",
        "b",
        "1",
        "c",
        "4",
    ]
    assert builder.getInt64VectorNodeAttribute("__collectiveCommGroup", {y}) == [1, 2]


def test_input_settings(builder: Builder) -> None:
    settings = InputSettings(TileSet.IO, ExchangeStrategy.OverlapLoops)
    x = builder.addInputTensor(TensorInfo("FLOAT", [2]), settings, "x")
    assert builder.model.metadata_props["__tile_set/x"] == "1"
    assert builder.model.metadata_props["__exchange_strategy/x"] == "2"
    # PopART drops the settings of this form.
    builder.addInputTensor("FLOAT", [2], settings, "y")
    assert "__tile_set/y" not in builder.model.metadata_props
    assert x == "x"
    with pytest.raises(TypeError, match=r"addInputTensor\(\): incompatible function arguments"):
        builder.addInputTensor([2, 3])
    with pytest.raises(popart_exception, match="all dimensions must be known"):
        builder.addInputTensor("FLOAT", [-1, 3])


def test_contexts_are_objects_that_can_be_entered_again() -> None:
    builder = popart.Builder()
    place, names = builder.virtualGraph(1), builder.nameScope("outer")
    pairs = builder.outlineAttributes({"a": 1})
    assert isinstance(place, popart.AttributeContextManager)
    assert isinstance(names, popart.NameContextManager)
    assert isinstance(pairs, popart.KeyValueContextManager)
    for context in (place, names, pairs):
        assert context.__enter__() is None
        context.__exit__(None, None, None)
    with place, builder.virtualGraph(2), place:
        assert builder.getVirtualGraph() == 1
    assert not builder.hasVirtualGraph()
    with names, names:
        assert builder.getNameScope("x") == "outer/outer/x"
    assert builder.getNameScope() == ""
