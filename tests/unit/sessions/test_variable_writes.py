"""Variables that a graph writes: CopyVarUpdate, and the statistics of batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception

ALL = popart.AnchorReturnType("All")
DEVICE = popart.DeviceManager


def _counting(builder: Any) -> tuple[str, str, str]:
    """(x, count, count + sum of x), where the last is the count's value in the next turn."""
    x = builder.addInputTensor("FLOAT", [2])
    count = builder.addInitializedInputTensor(np.zeros([1], np.float32), debugContext="count")
    total = builder.aiOnnx.reducesum([x], [0], 1)
    return x, count, builder.aiOnnx.add([count, total])


def _weights(session: Any, *names: str) -> list[np.ndarray]:
    session.weightsToHost()
    arrays = {name: np.empty(session.getInfo(name).shape(), np.float32) for name in names}
    session.readWeights(popart.PyWeightsIO(arrays))
    return list(arrays.values())


def _run(session: Any, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    return anchors


def test_copy_var_update_is_seen_by_the_next_micro_batch_of_inference() -> None:
    builder = popart.Builder()
    x, count, new = _counting(builder)
    builder.aiGraphcore.copyvarupdate([count, new])
    read = builder.aiOnnx.identity([count])
    options = popart.SessionOptions()
    options.constantWeights = False
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(3, {read: ALL}),
        DEVICE().createCpuDevice(),
        userOptions=options,
    )
    feeds = {x: np.arange(6, dtype=np.float32).reshape(3, 2)}
    np.testing.assert_array_equal(_run(session, feeds)[read].ravel(), [0, 1, 6])
    np.testing.assert_array_equal(_weights(session, count)[0], [15])
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    np.testing.assert_array_equal(anchors[read].ravel(), [15, 16, 21])


def test_copy_var_update_goes_through_accumulation_and_is_not_trained() -> None:
    builder = popart.Builder()
    x, count, new = _counting(builder)
    kept = builder.aiGraphcore.copyvarupdate([count, new])
    weight = builder.addInitializedInputTensor(np.ones([1], np.float32))
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([weight, new])])
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 2
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(2, {kept: ALL}),
        loss,
        popart.SGD({"defaultLearningRate": (0.5, True)}),
        DEVICE().createCpuDevice(),
        userOptions=options,
    )
    anchors = _run(session, {x: np.arange(8, dtype=np.float32).reshape(2, 2, 2)})
    np.testing.assert_array_equal(anchors[kept].ravel(), [1, 6, 15, 28])
    got_count, got_weight = _weights(session, count, weight)
    np.testing.assert_array_equal(got_count, [28])
    np.testing.assert_array_equal(got_weight, [1 - 0.5 * (1 + 6 + 15 + 28)])


def test_running_statistics_of_a_training_session_are_written_back() -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3, 4])
    scale, bias, mean, variance = (
        builder.addInitializedInputTensor(np.full(3, value, np.float32)) for value in (1, 0, 0, 1)
    )
    outside = builder.aiGraphcore.detach([variance])
    normal = builder.aiOnnx.batchnormalization([x, scale, bias, mean, outside], 5, 1e-5, 0.75)
    loss = builder.aiGraphcore.identityloss([normal[0]])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {loss: ALL}),
        loss,
        popart.SGD({"defaultLearningRate": (0.1, True)}),
        DEVICE().createCpuDevice(),
    )
    array = np.random.RandomState(0).standard_normal((2, 3, 4)).astype(np.float32)
    _run(session, {x: array})
    got_mean, got_variance = _weights(session, mean, variance)
    np.testing.assert_allclose(got_mean, 0.25 * array.mean(axis=(0, 2)), rtol=1e-5)
    expected = 0.75 + 0.25 * array.var(axis=(0, 2))
    np.testing.assert_allclose(got_variance, expected, rtol=1e-5)


def test_copy_var_update_wants_a_variable() -> None:
    builder = popart.Builder()
    x, _, new = _counting(builder)
    result = builder.aiGraphcore.copyvarupdate([builder.aiOnnx.identity([new]), new])
    with pytest.raises(
        popart_exception,
        match=r"CopyVarUpdate \(.*\) updates '.*', which is no variable; make it with "
        "addInitializedInputTensor",
    ):
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, {result: ALL}), DEVICE().createCpuDevice()
        )
    assert x


def test_copy_var_update_wants_equal_types() -> None:
    builder = popart.Builder()
    x, count, _ = _counting(builder)
    with pytest.raises(popart_exception, match=r"updates variable 'count', which is .* with '.*'"):
        builder.aiGraphcore.copyvarupdate([count, x])
