"""Kernels that no run changes are turned once; the host and every result see none of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.xla.kernels import library

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(2, 4, 5, 5)).astype(np.float32)
KERNEL = DRAW.normal(size=(6, 4, 3, 2)).astype(np.float32)
GROUPED = DRAW.normal(size=(4, 1, 3, 3)).astype(np.float32)
SHARED = DRAW.normal(size=(3, 4, 2, 2)).astype(np.float32)


@pytest.fixture(autouse=True)
def _xla_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN has a layout of its own."""
    monkeypatch.setattr(library, "version", lambda: None)


def _session() -> tuple[Any, dict[str, str], list[str]]:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", list(X.shape)))
    weights = {
        "kernel": builder.addInitializedInputTensor(KERNEL, "kernel"),
        "grouped": builder.addInitializedInputTensor(GROUPED, "grouped"),
        "shared": builder.addInitializedInputTensor(SHARED, "shared"),
    }
    outputs = [
        builder.aiOnnx.conv([x, weights["kernel"]], strides=[2, 1], pads=[1, 0, 0, 1]),
        builder.aiOnnx.conv([x, weights["grouped"]], group=4),
        builder.aiOnnx.conv([x, weights["shared"]]),
        builder.aiOnnx.reducesum([weights["shared"]], keepdims=False),
    ]
    for output in outputs:
        builder.addOutputTensor(output)
    options = popart.SessionOptions()
    options.constantWeights = False
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, {output: popart.AnchorReturnType("All") for output in outputs}),
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, {**weights, "x": x}, outputs


def _run(session: Any, x: str) -> dict[str, Any]:
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: X}, anchors))
    return dict(anchors)


def _convolved(kernel: Any, strides: tuple[int, int], pads: tuple[int, int, int, int]) -> Any:
    """Cross-correlation written out."""
    data = np.pad(X, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    windows = np.lib.stride_tricks.sliding_window_view(data, kernel.shape[2:], axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1]]
    return np.einsum("nchwkl,mckl->nmhw", windows, kernel)


def test_only_kernels_that_nothing_else_reads_are_turned() -> None:
    session, names, _ = _session()
    assert session._executable.program.layouts.kernels == {names["kernel"]}
    assert session._executable.weights[names["kernel"]].shape == (3, 2, 4, 6)


def test_results_and_weights_are_those_of_the_model() -> None:
    session, names, outputs = _session()
    found = _run(session, names["x"])
    np.testing.assert_allclose(
        found[outputs[0]], _convolved(KERNEL, (2, 1), (1, 0, 0, 1)), atol=1e-5
    )
    np.testing.assert_allclose(found[outputs[2]], _convolved(SHARED, (1, 1), (0,) * 4), atol=1e-5)
    np.testing.assert_allclose(found[outputs[3]], SHARED.sum(), rtol=1e-5)
    session.weightsToHost()
    read = np.empty_like(KERNEL)
    session.readWeights(popart.PyWeightsIO({names["kernel"]: read}))
    np.testing.assert_array_equal(read, KERNEL)


def test_new_weights_are_turned_too() -> None:
    session, names, outputs = _session()
    session.writeWeights(popart.PyWeightsIO({names["kernel"]: -KERNEL}))
    session.weightsFromHost()
    found = _run(session, names["x"])
    np.testing.assert_allclose(
        found[outputs[0]], -_convolved(KERNEL, (2, 1), (1, 0, 0, 1)), atol=1e-5
    )
