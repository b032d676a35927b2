"""Element types that differ, where PopART takes them: products, bounds, and losses of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from tests.unit.sessions.session_programs import builder, infer, run

HALVES = np.asarray([[1, 2, 3], [-4, 5, 6.5]], np.float16)


@pytest.mark.parametrize("scalar_first", [False, True])
def test_a_float_scalar_times_halves(scalar_first: bool) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT16", HALVES.shape, "x")
    scale = make.addInitializedInputTensor(np.asarray([[1.001]], np.float32), "scale")
    y = make.aiOnnx.mul([scale, x] if scalar_first else [x, scale])
    assert make.getTensorDtypeString(y) == "float16"
    total = make.aiOnnx.reducesum([make.aiOnnx.cast([y], "FLOAT")], keepdims=0)
    loss = make.aiGraphcore.identityloss([total])
    session = popart.TrainingSession(
        make.getModelProto(),
        popart.DataFlow(1, [y, "Gradient___scale"], popart.AnchorReturnType("All")),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    got = run(session, {"x": HALVES})
    expected = (HALVES.astype(np.float32) * np.float32(1.001)).astype(np.float16)
    assert got[y].dtype == np.float16
    np.testing.assert_array_equal(got[y], expected)
    np.testing.assert_allclose(got["Gradient___scale"], [[13.5]])


def test_a_float_bound_of_halves() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT16", HALVES.shape, "x")
    low = make.aiOnnx.constant(np.asarray([-1.5], np.float32))
    y = make.aiOnnx.clip([x, low])
    got = run(infer(make.getModelProto(), {y: "All"}), {"x": HALVES})[y]
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, np.maximum(HALVES, -1.5))


def test_floats_are_compared_in_opset_10() -> None:
    make = popart.Builder(opsets={"ai.onnx": 10})
    x = make.addInputTensor("FLOAT", [3], "x")
    y = make.aiOnnx.equal([x, make.aiOnnx.constant(np.asarray([1, 3, 3], np.float32))])
    got = run(infer(make.getModelProto(), {y: "All"}), {"x": np.asarray([1, 2, 3], np.float32)})[y]
    np.testing.assert_array_equal(got, [True, False, True])


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [(popart.ReductionType.Sum, 6), (popart.ReductionType.Mean, 2)],
)
def test_a_loss_of_integers_leaves_the_weights(reduction: Any, expected: int) -> None:
    make = builder()
    x = make.addInputTensor("INT32", [3], "x")
    w = make.addInitializedInputTensor(np.ones(3, np.float32), "w")
    product = make.aiOnnx.mul([w, make.aiOnnx.cast([x], "FLOAT")])
    loss = make.aiGraphcore.identityloss([make.aiOnnx.cast([product], "INT32")], reduction)
    session = popart.TrainingSession(
        make.getModelProto(),
        popart.DataFlow(1, [loss], popart.AnchorReturnType("All")),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    got = run(session, {"x": np.asarray([1, 2, 3], np.int32)})
    assert got[loss].dtype == np.int32
    assert got[loss] == expected
    session.weightsToHost()
    weights = {"w": np.zeros(3, np.float32)}
    session.readWeights(popart.PyWeightsIO(weights))
    np.testing.assert_array_equal(weights["w"], np.ones(3))


def test_a_slice_has_the_shape_of_where_it_goes() -> None:
    make = builder()
    data = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    x = make.addInputTensor("FLOAT", data.shape, "x")
    at = make.addInputTensor("UINT32", [1], "at")
    into = make.aiGraphcore.init([2, 4], popart.DataType.FLOAT, popart.InitType.Zero)
    y = make.aiGraphcore.dynamicslice([x, at, into], axes=[0], sizes=[1], noOverlap=True)
    assert make.getTensorShape(y) == [2, 4]
    got = run(
        infer(make.getModelProto(), {y: "All"}), {"x": data, "at": np.asarray([2], np.uint32)}
    )[y]
    np.testing.assert_array_equal(got, data[2])


@pytest.mark.parametrize("name", ["INT8", "UINT8", "INT16"])
@pytest.mark.parametrize("operator", ["add", "mul", "less", "max"])
def test_small_integers_are_not_computed_with(name: str, operator: str) -> None:
    make = builder()
    x, y = (make.addInputTensor(name, [2], each) for each in "xy")
    out = getattr(make.aiOnnx, operator)([x, y])
    session = popart.InferenceSession(
        make.getModelProto(),
        popart.DataFlow(1, [out], popart.AnchorReturnType("All")),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    with pytest.raises(popart.poplar_exception, match=rf"PopLibs has no vertex .* 'x' is {name}"):
        session.prepareDevice()


def test_small_integers_are_moved_and_cast_and_constants_computed() -> None:
    make = builder()
    data = np.asarray([-3, 100], np.int8)
    x = make.addInputTensor("INT8", [2], "x")
    wide = make.aiOnnx.cast([x], "INT32")
    constant = make.aiOnnx.constant(data)
    doubled = make.aiOnnx.add([constant, make.aiOnnx.constant(np.asarray([1, 2], np.int8))])
    y = make.aiOnnx.add([wide, make.aiOnnx.cast([doubled], "INT32")])
    both = make.aiOnnx.concat([x, x], axis=0)
    got = run(infer(make.getModelProto(), {y: "All", both: "All"}), {"x": data})
    np.testing.assert_array_equal(got[y], data.astype(int) * 2 + [1, 2])
    np.testing.assert_array_equal(got[both], [*data, *data])
