"""What stands between convolutions of a training step computes in their layout."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest

from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.lowerings.image_layouts import ImageLayouts
from paddle_ipu.xla.step.graph import LoweredGraph

BATCH, SIDE, CHANNELS = 2, 12, 8


def _network() -> tuple[LoweredGraph, str]:
    """A residual block between convolutions, gated by channel, and max pooling behind it."""
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnx
    x = builder.addInputTensor("FLOAT", [BATCH, CHANNELS, SIDE, SIDE], "x")
    kernel = builder.addInputTensor("FLOAT", [CHANNELS, CHANNELS, 3, 3], "kernel")
    norm = [builder.addInputTensor("FLOAT", [CHANNELS], f"norm{i}") for i in range(4)]
    gate = builder.addInputTensor("FLOAT", [BATCH, CHANNELS, 1, 1], "gate")

    def convolved(value: str) -> str:
        out = onnx.conv([value, kernel, norm[1]], pads=[1, 1, 1, 1])
        return str(onnx.batchnormalization([out, *norm], 5)[0])

    first = onnx.relu([convolved(x)])
    inner = onnx.mul([convolved(first), gate])
    last = convolved(onnx.relu([onnx.add([inner, first])]))
    pooled = onnx.maxpool([onnx.leakyrelu([last], 0.1)], 1, [3, 3], strides=[2, 2])[0]
    return LoweredGraph(builder.model.graph), str(pooled)


def _inputs() -> dict[str, Any]:
    random = np.random.default_rng(0)
    vectors = {f"norm{i}": random.uniform(0.5, 2, CHANNELS).astype(np.float32) for i in range(4)}
    shapes = {
        "x": (BATCH, CHANNELS, SIDE, SIDE),
        "kernel": (CHANNELS, CHANNELS, 3, 3),
        "gate": (BATCH, CHANNELS, 1, 1),
    }
    drawn = {name: random.standard_normal(s, np.float32) * 0.3 for name, s in shapes.items()}
    return {**drawn, **vectors}


@pytest.mark.skipif(library.version() is None, reason=f"no oneDNN here: {library.why_not()}")
def test_nothing_between_convolutions_is_transposed() -> None:
    graph, out = _network()
    inputs = _inputs()

    def total(kernel: Any) -> Any:
        env = graph.evaluate({**inputs, "kernel": kernel}, training=True, key=jax.random.key(0))
        return (env[out] ** 2).sum()

    text = jax.jit(jax.grad(total)).lower(inputs["kernel"]).compile().as_text()
    assert text.count("paddle_ipu_onednn_training") >= 8
    turned = re.findall(rf"\[{BATCH},\d+,\d+,\d+\]\S* (?:transpose|copy)\(", text)
    # Nothing but the image, which comes with its channels first.
    assert len(turned) <= 1, turned


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
