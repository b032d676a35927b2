"""What stands between convolutions of a training step computes in their layout."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.lowerings.image_layouts import ImageLayouts
from paddle_ipu.xla.step.graph import LoweredGraph
from tests.unit.xla.inference_sessions import run, session_of

needs_onednn = pytest.mark.skipif(
    library.version() is None, reason=f"no oneDNN here: {library.why_not()}"
)

BATCH, SIDE, CHANNELS = 2, 12, 8
_ONNX = {"float32": "FLOAT", "float16": "FLOAT16"}


def _network(dtype: str) -> tuple[LoweredGraph, str]:
    """A residual block between convolutions, gated by channel, and max pooling behind it.

    Norms compute in float32, as those of a half program of Paddle's do.
    """
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnx
    x = builder.addInputTensor(dtype, [BATCH, CHANNELS, SIDE, SIDE], "x")
    kernel = builder.addInputTensor(dtype, [CHANNELS, CHANNELS, 3, 3], "kernel")
    norm = [builder.addInputTensor("FLOAT", [CHANNELS], f"norm{i}") for i in range(4)]
    gate = builder.addInputTensor(dtype, [BATCH, CHANNELS, 1, 1], "gate")
    bias = onnx.cast([norm[1]], dtype)

    def convolved(value: str) -> str:
        out = onnx.cast([onnx.conv([value, kernel, bias], pads=[1, 1, 1, 1])], "FLOAT")
        return str(onnx.cast([onnx.batchnormalization([out, *norm], 5)[0]], dtype))

    first = onnx.relu([convolved(x)])
    inner = onnx.mul([convolved(first), gate])
    last = convolved(onnx.relu([onnx.add([inner, first])]))
    pooled = onnx.maxpool([onnx.leakyrelu([last], 0.1)], 1, [3, 3], strides=[2, 2])[0]
    return LoweredGraph(builder.model.graph), str(pooled)


def _inputs(dtype: str) -> dict[str, Any]:
    random = np.random.default_rng(0)
    vectors = {f"norm{i}": random.uniform(0.5, 2, CHANNELS).astype(np.float32) for i in range(4)}
    shapes = {
        "x": (BATCH, CHANNELS, SIDE, SIDE),
        "kernel": (CHANNELS, CHANNELS, 3, 3),
        "gate": (BATCH, CHANNELS, 1, 1),
    }
    drawn = {name: random.standard_normal(s, np.float32) * 0.3 for name, s in shapes.items()}
    return {**{name: array.astype(dtype) for name, array in drawn.items()}, **vectors}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@needs_onednn
def test_nothing_between_convolutions_is_transposed(dtype: str) -> None:
    graph, out = _network(_ONNX[dtype])
    inputs = _inputs(dtype)

    def total(kernel: Any) -> Any:
        env = graph.evaluate({**inputs, "kernel": kernel}, training=True, key=jax.random.key(0))
        return (env[out] ** 2).sum()

    text = jax.jit(jax.grad(total)).lower(inputs["kernel"]).compile().as_text()
    assert text.count("paddle_ipu_onednn_training") >= 8
    turned = re.findall(rf"\[{BATCH},\d+,\d+,\d+\]\S* (?:transpose|copy)\(", text)
    # Nothing but the image, which comes with its channels first.
    assert len(turned) <= 1, turned


class Inference:
    """A half network by packed convolutions, with norms and an integer result behind pooling."""

    def __init__(self) -> None:
        builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        onnx = builder.aiOnnx
        self.x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [BATCH, CHANNELS, SIDE, SIDE]))
        drawn = _inputs("float16")
        weight = builder.addInitializedInputTensor
        norm = [weight(drawn[f"norm{i}"], f"norm{i}") for i in range(4)]

        def convolved(value: str, name: str, addend: str | None = None) -> str:
            out = onnx.conv([value, weight(drawn["kernel"], name)], pads=[1, 1, 1, 1])
            out = out if addend is None else onnx.add([out, addend])
            wide = onnx.batchnormalization([onnx.cast([out], "FLOAT"), *norm], 1)[0]
            return str(onnx.cast([wide], "FLOAT16"))

        first = onnx.relu([convolved(self.x, "first")])
        gated = onnx.mul([first, weight(drawn["gate"], "gate")])
        last = onnx.tanh([convolved(gated, "last", addend=first)])
        pooled = onnx.maxpool([last], 1, [3, 3], strides=[2, 2])[0]
        steps = onnx.cast([onnx.mul([pooled, pooled])], "BOOL")
        self.results = [str(pooled), str(steps)]
        self.session = session_of(builder, self.results)
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self.data = drawn["x"]

    def run(self) -> list[Any]:
        found = run(self.session, {self.x: self.data})
        return [found[name] for name in self.results]

    def text(self) -> str:
        executable = self.session._executable
        return str(executable._lowered_for(None, executable._step).compile().as_text())


@needs_onednn
def test_inference_in_half_transposes_its_images_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    by_kernels = Inference()
    text = by_kernels.text()
    assert text.count('"paddle_ipu_onednn_convolution"') == 2
    copied = re.findall(rf"\[{BATCH},\d+,\d+,\d+\]\S* copy\(", text)
    # What is fed and what is fetched; XLA transposes without a copy by another layout.
    assert len(copied) <= 3, copied
    monkeypatch.setattr(library, "version", lambda: None)
    for found, expected in zip(by_kernels.run(), Inference().run(), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=0, atol=4e-3
        )


def test_an_operator_of_the_user_gets_images_as_the_graph_has_them() -> None:
    """Also one whose name is that of an elementwise operator."""
    builder = Builder(opsets={"ai.onnx": 11})
    x = builder.addInputTensor("FLOAT", [BATCH, CHANNELS, 4, 6], "x")
    pooled = builder.aiOnnx.maxpool([x], 1, [1, 1])[0]
    result = str(builder.aiOnnx.max([pooled]))
    graph = LoweredGraph(builder.model.graph)
    graph.nodes[-1] = replace(
        graph.nodes[-1], domain="custom.ops", rule=lambda _, inputs, __: inputs[0].max(1)
    )
    image = np.random.default_rng(0).normal(size=(BATCH, CHANNELS, 4, 6)).astype(np.float32)
    found = graph.evaluate({"x": image}, training=False, key=jax.random.key(0))[result]
    np.testing.assert_array_equal(found, image.max(1))


def test_a_change_is_made_in_the_layout_that_is_there() -> None:
    images = ImageLayouts()
    last = jax.numpy.arange(48, dtype=np.float32).reshape(2, 3, 2, 4)
    there, elsewhere = images.first(last), np.ones((2, 4, 3, 2), np.float32)
    shapes = []

    def doubled(x: Any) -> Any:
        shapes.append(x.shape)
        return 2 * x

    np.testing.assert_array_equal(images.changed(there, doubled), 2 * np.asarray(there))
    np.testing.assert_array_equal(images.changed(elsewhere, doubled), 2 * elsewhere)
    assert shapes == [last.shape, elsewhere.shape]
    assert images.last(images.changed(there, doubled)).shape == last.shape
    assert images.changed(there, lambda x: x) is there


def test_operands_are_there_or_small() -> None:
    images = ImageLayouts()
    last = np.arange(48, dtype=np.float32).reshape(2, 3, 2, 4)
    there = images.first(jax.numpy.asarray(last))
    channels, scalar = np.ones((1, 4, 1, 1), np.float32), np.float32(2)
    turned = images.operands([there, channels, np.asarray(scalar), None])
    assert turned is not None
    assert [None if a is None else a.shape for a in turned] == [last.shape, (1, 1, 1, 4), (), None]
    np.testing.assert_array_equal(turned[0], last)
    assert images.operands([there, np.ones(there.shape, np.float32)]) is None
    assert images.operands([there, np.ones((4, 1, 1), np.float32)]) is None
    assert images.operands([np.asarray(scalar)]) is None
