"""The stand-in for Graphcore's popart: strict like it, and our module agrees with it."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

import paddle_ipu.popart as ours
from tests.popart_stand_in import StandIn, make_popart
from tests.popart_stand_in import core as popart_stand_in_core

OPSETS = {"ai.onnx": 11, "ai.graphcore": 1}


@pytest.fixture
def popart() -> Iterator[StandIn]:
    yield make_popart()


def _program(popart: ModuleType) -> tuple[Any, str, str, str]:
    builder = popart.Builder(opsets=OPSETS)
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]))
    labels = builder.addInputTensor("INT64", [2], "labels")
    w = builder.addInitializedInputTensor(np.ones((3, 4), np.float32), "w")
    with builder.nameScope("net"), builder.virtualGraph(0), builder.pipelineStage(1):
        h = builder.aiOnnx.matmul([x, w], "dense")
        h = builder.aiOnnx.reshape([h, builder.aiOnnx.constant(np.array([2, 4]))])
        parts = builder.aiOnnx.split([h], 2, 1)
        h = builder.aiOnnx.concat(parts, axis=1)
    builder.setAvailableMemoryProportion("net/MatMul:0", 0.5)
    probs = builder.aiOnnx.softmax([h], 1)
    loss = builder.aiGraphcore.nllloss([probs, labels], popart.ReductionType.Mean, ignoreIndex=-1)
    builder.addOutputTensor(loss)
    return builder, x, labels, loss


def test_both_modules_build_the_same_model(popart: StandIn) -> None:
    theirs, mine = _program(popart)[0], _program(ours)[0]
    protos = [onnx.load_model_from_string(item.getModelProto()) for item in (theirs, mine)]
    for proto in protos:
        onnx.checker.check_model(proto)
    first, second = protos
    for left, right in zip(first.graph.node, second.graph.node, strict=True):
        assert (left.domain, left.op_type) == (right.domain, right.op_type)
        assert (list(left.input), list(left.output)) == (list(right.input), list(right.output))
        assert left.name == right.name
        values = [
            {
                item.name: repr(onnx.helper.get_attribute_value(item))
                for item in node.attribute
                if item.type != onnx.AttributeProto.TENSOR
            }
            for node in (left, right)
        ]
        assert values[0] == values[1], left.op_type
    inputs = [[item.name for item in graph.input] for graph in (first.graph, second.graph)]
    assert inputs[0] == inputs[1]
    assert first.graph.initializer[0].name == second.graph.initializer[0].name == "w"


def test_wrong_use_is_refused(popart: StandIn) -> None:
    builder = popart.Builder(opsets=OPSETS)
    x = builder.addInputTensor("FLOAT", [2])
    with pytest.raises(AttributeError, match="has no operator method 'logical_nand'"):
        builder.aiOnnxOpset11.logical_nand([x])
    with pytest.raises(AttributeError, match="no attribute 'node_of'"):
        builder.node_of(x)
    with pytest.raises(AttributeError, match="no attribute 'model'"):
        _ = builder.model
    for call in (
        lambda: builder.aiOnnx.softmax([x], "1"),
        lambda: builder.aiOnnx.softmax([x], dim=1),
        lambda: builder.aiOnnx.concat([x]),
        lambda: builder.aiOnnx.add(x),
        lambda: builder.aiGraphcore.identityloss([x], "Mean"),
        lambda: builder.aiGraphcore.identityloss([x], ours.ReductionType.Mean),
        lambda: builder.setAvailableMemoryProportion(x, "0.5"),
        lambda: builder.addInputTensor([2]),
        lambda: popart.DataFlow("1", {}),
        lambda: popart.DataFlow(1, {"x": "All"}),
        lambda: popart.DeviceManager().createIpuModelDevice(numIPUs=1),
        lambda: popart.SGD({}, nesterov=True),
        lambda: popart.Adam({}, mode=ours.AdamMode.Adam),
        lambda: popart.InferenceSession(builder, popart.DataFlow(1, [x]), None),
    ):
        with pytest.raises(TypeError, match="incompatible (function|constructor) arguments"):
            call()
    with pytest.raises(AttributeError, match="no attribute 'enablePipelinig'"):
        popart.SessionOptions().enablePipelinig = True
    with pytest.raises(TypeError, match=r"incompatible function arguments. It takes VirtualGraph"):
        popart.SessionOptions().virtualGraphMode = ours.VirtualGraphMode.Manual
    with pytest.raises(AttributeError, match="no attribute 'compilationProgressLogger'"):
        popart.SessionOptions().compilationProgressLogger = None
    with pytest.raises(popart.popart_exception, match="Invalid SGD key, rate"):
        popart.SGD({"rate": (0.1, True)})
    with pytest.raises(popart.popart_exception, match="must be a py::tuple"):
        popart.SGD({"lossScaling": 1.0})
    with pytest.raises(AttributeError, match="PaddleOptimizer"):
        _ = popart.PaddleOptimizer


def test_a_training_run_writes_zeros_and_is_recorded(popart: StandIn) -> None:
    builder, x, labels, loss = _program(popart)
    options = popart.SessionOptions()
    options.enableGradientAccumulation = True
    options.accumulationFactor = 2
    options.engineOptions = {"debug.allowOutOfMemory": "true"}
    flow = popart.DataFlow(3, {loss: popart.AnchorReturnType("All")})
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False)})
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=flow,
        loss=loss,
        optimizer=optimizer,
        deviceInfo=device,
        userOptions=options,
    )
    inputs = {x: np.zeros((3, 2, 2, 3), np.float32), labels: np.zeros((3, 2, 2), np.int64)}
    outputs = session.initAnchorArrays()
    assert {name: array.shape for name, array in outputs.items()} == {loss: (3, 2)}
    step = popart.PyStepIO(inputs, outputs)
    with pytest.raises(popart.popart_runtime_error, match=r"Devicex::prepare\(\) must be called"):
        session.run(step)
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="Must call weightsFromHost before run"):
        session.run(step)
    session.weightsFromHost()
    session.run(step, "step 0")
    assert not outputs[loss].any()
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.2, False)}))
    weights = {"w": np.zeros((3, 4), np.float32)}
    session.readWeights(popart.PyWeightsIO(weights))
    assert weights["w"].all()
    assert [call.args for call in popart.named("SGD")] == [
        ({"defaultLearningRate": (0.1, False)},),
        ({"defaultLearningRate": (0.2, False)},),
    ]
    assert popart.named("SessionOptions.accumulationFactor")[0].args == (2,)
    assert popart.named("ai.onnx.concat")[0].kwargs == {"axis": 1}
    short = popart.PyStepIO({**inputs, x: np.zeros(1, np.float32)}, outputs)
    with pytest.raises(
        popart.popart_runtime_error, match="Unexpected number of input elements for Tensor input"
    ):
        session.run(short)


def test_our_own_domain_is_refused_when_a_session_is_made(popart: StandIn) -> None:
    builder = popart.Builder(opsets=OPSETS)
    x = builder.addInputTensor("BOOL", [2])
    (y,) = builder.customOp(
        opName="LogicalXor", opVersion=1, domain="ai.paddle_ipu", inputs=[x, x], attributes={}
    )
    with pytest.raises(popart.popart_exception, match=r"^No class for ai.paddle_ipu.LogicalXor:1$"):
        popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, [y], popart.AnchorReturnType("All")),
            popart.DeviceManager().createCpuDevice(),
        )


def test_a_fresh_stand_in_records_from_the_start(popart: StandIn) -> None:
    popart.Builder()
    assert popart.named("Builder") == [popart_stand_in_core.Call("Builder", (), {})]
    assert make_popart().calls == []


def test_containers_are_copies_as_pybind_gives_them(popart: StandIn) -> None:
    options = popart.SessionOptions()
    options.customCodelets.append("a.cpp")
    assert options.customCodelets == []
    options.engineOptions["debug.instrument"] = "true"
    options.engineOptions.update(other="lost")
    assert options.engineOptions == {"debug.instrument": "true"}
    assert popart.named("SessionOptions.engineOptions")[0].args == ({"debug.instrument": "true"},)
    options.weightTensorLocationSettings.minElementsForOffChip = 5
    assert options.weightTensorLocationSettings.minElementsForOffChip == 5
    with pytest.raises(TypeError, match=r"It takes dict\[str, str\], got"):
        options.engineOptions["debug.instrument"] = True


def test_the_first_overload_that_fits_is_taken(popart: StandIn) -> None:
    off_chip = popart.TensorStorage.OffChip
    assert popart.TensorLocationSettings(off_chip).location.storage is off_chip
    sharded = popart.TensorLocation(off_chip, popart.ReplicatedTensorSharding.On)
    assert sharded.loadTileSet is popart.TileSet.Compute
    for call in (
        lambda: popart.TensorLocation(off_chip, popart.TileSet.IO),
        lambda: popart.DataFlow(1, anchorTensors=["x"]),
        lambda: popart.AnchorReturnType("EveryN", period=2),
        lambda: popart.CommGroup(popart.CommGroupType.Consecutive),
    ):
        with pytest.raises(TypeError, match="The following argument types are supported:\n    1. "):
            call()


def test_what_nothing_here_runs_is_checked_too(popart: StandIn) -> None:
    with pytest.raises(TypeError, match=r"GraphTransformer\.__init__\(\): incompatible construct"):
        popart.GraphTransformer()
    with pytest.raises(NotImplementedError, match="only checks the arguments of ConstSGD"):
        popart.ConstSGD(0.1, loss_scaling=2.0)
    with pytest.raises(TypeError, match=r"getLogger\(\): incompatible function arguments"):
        popart.getLogger(module="all")


def test_names_are_given_as_graphcores_functions_call_them(popart: StandIn) -> None:
    builder = popart.Builder(opsets=OPSETS)
    x = builder.addInputTensor("FLOAT", [2], popart.DebugContext("x"))
    body = builder.createSubgraphBuilder()
    body.addOutputTensor(body.aiOnnx.relu([body.addUntypedInputTensor()]))
    assert x == "x" and len(builder.aiGraphcore.call([x], 1, body, debugName="called")) == 1
    with pytest.raises(TypeError, match="debugName: object = ''"):
        builder.aiGraphcore.call([x], 1, body, debugContext="called")
    with pytest.raises(TypeError, match="debugPrefix: DebugContext = ''"):
        builder.aiGraphcore.tensorremap([x], debugContext="moved")
