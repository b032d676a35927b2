"""Norms by constant statistics are folded into weights; neither the host nor any result tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from paddle_ipu import popart
from paddle_ipu.xla.rewrites.folded_norms import FoldedNorm, fold

DRAW = np.random.default_rng(0)


def _drawn(*shape: int) -> Any:
    return DRAW.normal(size=shape).astype(np.float32)


X = _drawn(2, 4, 6, 6)
WEIGHTS = {
    "kernel": _drawn(6, 4, 3, 3),
    "grouped": _drawn(6, 3, 1, 1),
    "matrix": _drawn(54, 5),
    "own_bias": _drawn(6),
    "added": _drawn(5),
    **{f"{part}{n}": _drawn(n) for n in (6, 5) for part in ("scale", "bias", "mean")},
    **{f"variance{n}": DRAW.uniform(0.5, 2, n).astype(np.float32) for n in (6, 5)},
    **{f"{part}_": _drawn(6) for part in ("scale", "bias", "mean")},
    "variance_": DRAW.uniform(0.5, 2, 6).astype(np.float32),
}
EPSILON = 1e-3


class _Network:
    """Convolution, norm, convolution with a bias, norm, matrix product, addition, norm."""

    def __init__(self, also_anchored: str = "", runs: bool = True, **options: Any) -> None:
        builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        onnx = builder.aiOnnx
        self.x = builder.addInputTensor(popart.TensorInfo("FLOAT", list(X.shape)))
        self.names = {n: builder.addInitializedInputTensor(a, n) for n, a in WEIGHTS.items()}
        own = self.names

        def normed(value: str, kind: str) -> str:
            parts = [own[f"{part}{kind}"] for part in ("scale", "bias", "mean", "variance")]
            return str(onnx.batchnormalization([value, *parts], 1, EPSILON)[0])

        self.inner = {"convolved": onnx.conv([self.x, own["kernel"]], pads=[0, 0, 0, 0])}
        first = normed(self.inner["convolved"], "6")
        second = normed(onnx.conv([first, own["grouped"], own["own_bias"]], group=2), "_")
        pooled = onnx.maxpool([second], 1, kernel_shape=[2, 2], strides=[1, 1], pads=[0] * 4)[0]
        shape = onnx.constant(np.array([2, 54], np.int64))
        rows = onnx.add([onnx.matmul([onnx.reshape([pooled, shape]), own["matrix"]]), own["added"]])
        shape = onnx.constant(np.array([2, 5, 1], np.int64))
        self.result = normed(onnx.reshape([rows, shape]), "5")
        anchors = [self.result, *([self.inner[also_anchored]] if also_anchored else [])]
        settings = popart.SessionOptions()
        settings.constantWeights = False
        for name, value in options.items():
            setattr(settings, name, value)
        for anchor in anchors:
            builder.addOutputTensor(anchor)
        self.session = popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, {anchor: popart.AnchorReturnType("All") for anchor in anchors}),
            popart.DeviceManager().createIpuModelDevice({}),
            userOptions=settings,
        )
        if runs:
            self.session.prepareDevice()
            self.session.weightsFromHost()

    @property
    def folded(self) -> list[str]:
        return [norm.kernel for norm in self.session._executable.program.layouts.folded]

    def run(self) -> dict[str, Any]:
        anchors = self.session.initAnchorArrays()
        self.session.run(popart.PyStepIO({self.x: X}, anchors))
        return dict(anchors)

    def write(self, name: str, array: Any) -> None:
        self.session.writeWeights(popart.PyWeightsIO({self.names[name]: array}))
        self.session.weightsFromHost()


@pytest.fixture(scope="module")
def network() -> _Network:
    return _Network()


def _expected(weights: Any) -> Any:
    """The network written out in float64."""
    w = {name: np.asarray(array, np.float64) for name, array in weights.items()}

    def normed(x: Any, kind: str) -> Any:
        shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
        scale, bias, mean, variance = (
            w[f"{part}{kind}"].reshape(shape) for part in ("scale", "bias", "mean", "variance")
        )
        return (x - mean) / np.sqrt(variance + EPSILON) * scale + bias

    windows = np.lib.stride_tricks.sliding_window_view(X.astype(np.float64), (3, 3), (2, 3))
    x = normed(np.einsum("nchwkl,mckl->nmhw", windows, w["kernel"]), "6")
    halves = zip(np.split(x, 2, axis=1), np.split(w["grouped"][..., 0, 0], 2), strict=True)
    x = np.concatenate([np.einsum("nchw,mc->nmhw", part, own) for part, own in halves], axis=1)
    x = normed(x + w["own_bias"][:, None, None], "_")
    x = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max(axis=(-2, -1))
    return normed(x.reshape(2, 54) @ w["matrix"] + w["added"], "5")[..., None]


def _is_close(found: Any, expected: Any) -> bool:
    return bool(np.linalg.norm(found - expected) < 1e-6 * np.linalg.norm(expected))


def test_norms_behind_convolutions_and_matrix_products_are_folded(network: _Network) -> None:
    assert network.folded == ["kernel", "grouped", "matrix"]
    text = network.session._executable.text()
    assert "rsqrt" not in text and "divide" not in text
    assert _is_close(network.run()[network.result], _expected(WEIGHTS))


def test_the_host_reads_the_weights_of_the_model(network: _Network) -> None:
    read = {network.names[name]: np.empty_like(array) for name, array in WEIGHTS.items()}
    network.session.weightsToHost()
    network.session.readWeights(popart.PyWeightsIO(read))
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(read[network.names[name]], array)


@pytest.mark.parametrize("changed", ["kernel", "scale6", "mean_", "own_bias", "added", "bias5"])
def test_new_weights_are_folded_with_those_that_stay(network: _Network, changed: str) -> None:
    new = WEIGHTS[changed] * 1.5 + 0.25
    network.write(changed, new)
    assert _is_close(network.run()[network.result], _expected({**WEIGHTS, changed: new}))
    network.write(changed, WEIGHTS[changed])


def test_sessions_share_what_is_the_same_on_both_devices(network: _Network) -> None:
    other = _Network("convolved")
    held = other.session._executable.weights
    given = network.session._executable.weights
    other.session.shareWeights(network.session, {name: name for name in network.names.values()})
    own = {name for name in network.names.values() if held[name] is not given[name]}
    # The kernel is folded in one of them only, into the bias of the norm behind it.
    assert own == {network.names["kernel"], network.names["bias6"]}
    assert _is_close(other.run()[other.result], _expected(WEIGHTS))
    read = {other.names[name]: np.empty_like(WEIGHTS[name]) for name in ("grouped", "kernel")}
    other.session.weightsToHost()
    other.session.readWeights(popart.PyWeightsIO(read))
    for name in ("grouped", "kernel"):
        np.testing.assert_array_equal(read[other.names[name]], WEIGHTS[name])


def test_a_norm_whose_input_is_looked_at_stays() -> None:
    network = _Network("convolved")
    assert network.folded == ["grouped", "matrix"]
    found = network.run()
    windows = np.lib.stride_tricks.sliding_window_view(X, (3, 3), (2, 3))
    convolved = np.einsum("nchwkl,mckl->nmhw", windows, WEIGHTS["kernel"])
    assert _is_close(found[network.inner["convolved"]], convolved)
    assert _is_close(found[network.result], _expected(WEIGHTS))


def test_nothing_is_folded_where_every_result_is_checked() -> None:
    network = _Network(runs=False, enableFloatingPointChecks=True)
    assert network.folded == []


def test_a_sum_of_unknown_shape_is_left_alone() -> None:
    parts = [ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT)) for name in ("a", "b")]
    added = ir.node("Add", parts)
    (total,) = added.outputs
    norm = [ir.Value(name=n, type=ir.TensorType(ir.DataType.FLOAT)) for n in ("s", "c", "m", "v")]
    node = ir.node("BatchNormalization", [total, *norm])
    for value in (total, *node.outputs):
        value.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([*parts, *norm], node.outputs, nodes=[added, node])
    assert fold(graph, {"b", "s", "c", "m", "v"}, ()) == []


def test_what_is_no_number_is_said_by_the_results_alone() -> None:
    norm = FoldedNorm("y", "kernel", 0, "scale", "bias", "mean", "variance", 0.0, None)
    rows = {"scale": [1, 1, 3e38], "bias": [0] * 3, "mean": [1] * 3, "variance": [-1, 0, 1e-9]}
    arrays = {name: np.array(row, np.float32) for name, row in rows.items()}
    found = norm.folded({**arrays, "kernel": np.ones((3, 1), np.float32)})
    np.testing.assert_array_equal(found["kernel"], [[np.nan], [np.inf], [np.inf]])
    np.testing.assert_array_equal(found["bias"], [np.nan, -np.inf, -np.inf])
