"""What XLA makes of a graph: layer normalisation of rows that a Reshape has merged."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest

from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.side_values import SideValues

BATCH, SEQUENCE, WIDTH = 2, 64, 128


def _residual_stack(layers: int) -> tuple[LoweredGraph, str, str]:
    """``x = norm(x + (x @ w + b))``, `layers` times; normalised flat, as Paddle's layer_norm is."""
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnx
    x = builder.addInputTensor("FLOAT", [BATCH, SEQUENCE, WIDTH], "x")
    weight = builder.addInputTensor("FLOAT", [WIDTH, WIDTH], "weight")
    scale = builder.addInputTensor("FLOAT", [WIDTH], "scale")
    bias = builder.addInputTensor("FLOAT", [WIDTH], "bias")

    def reshape(value: str, shape: list[int]) -> str:
        return str(onnx.reshape([value, onnx.constant(np.asarray(shape, np.int64))]))

    flat = x
    for _ in range(layers):
        projected = onnx.add([onnx.matmul([x, weight]), bias])
        flat = reshape(onnx.add([x, projected]), [BATCH * SEQUENCE, WIDTH])
        flat = builder.aiGraphcore.groupnormalization([flat, scale, bias], 1, 1e-5)[0]
        x = reshape(flat, [BATCH, SEQUENCE, WIDTH])
    return LoweredGraph(builder.model.graph), x, flat


def _inputs() -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes = {"x": (BATCH, SEQUENCE, WIDTH), "weight": (WIDTH, WIDTH), "scale": (WIDTH,),
              "bias": (WIDTH,)}  # fmt: skip
    return {name: random.standard_normal(s, np.float32) * 0.1 for name, s in shapes.items()}


def _expected(layers: int) -> np.ndarray[Any, Any]:
    values = {name: array.astype(np.float64) for name, array in _inputs().items()}
    x = values["x"]
    for _ in range(layers):
        x = x + (x @ values["weight"] + values["bias"])
        deviations = x - x.mean(-1, keepdims=True)
        x = deviations / np.sqrt((deviations**2).mean(-1, keepdims=True) + 1e-5)
        x = x * values["scale"] + values["bias"]
    return np.asarray(x)


def test_merged_rows_are_normalised_the_same() -> None:
    graph, out, flat = _residual_stack(3)
    env = graph.evaluate(_inputs(), training=True, key=jax.random.key(0))
    assert env[flat].shape == (BATCH * SEQUENCE, WIDTH)
    assert env[out].shape == (BATCH, SEQUENCE, WIDTH)
    np.testing.assert_allclose(env[out], _expected(3), rtol=2e-5, atol=2e-5)


def test_a_tap_on_the_merged_rows_has_their_gradient() -> None:
    graph, out, _ = _residual_stack(1)
    merged = next(node.outputs[0] for node in graph.nodes if node.op_type == "Reshape")

    def of_tap(tap: jax.Array) -> jax.Array:
        key = jax.random.key(0)
        return graph.evaluate(_inputs(), training=True, key=key, side=SideValues({merged: tap}))[
            out
        ][0, 0, 0]

    gradient = jax.grad(of_tap)(np.zeros((BATCH * SEQUENCE, WIDTH), np.float32))
    step = np.zeros_like(gradient)
    step[0, 1] = 1e-2
    slope = (of_tap(step) - of_tap(-step)) / 2e-2
    assert gradient[0, 1] == pytest.approx(float(slope), rel=1e-2)
    assert np.count_nonzero(gradient[1:]) == 0


def _largest_computation(layers: int) -> int:
    """Instructions of the largest fused computation of the stack's gradient."""
    graph, out, _ = _residual_stack(layers)

    def total(values: dict[str, Any]) -> jax.Array:
        result = graph.evaluate(values, training=True, key=jax.random.key(0))[out]
        return (result * result).sum()

    text = jax.jit(jax.grad(total)).lower(_inputs()).compile().as_text()
    computations = re.findall(r"^%fused_computation.*?^}", text, re.MULTILINE | re.DOTALL)
    return max(computation.count("\n") for computation in computations)


def test_fusions_do_not_grow_with_depth() -> None:
    assert _largest_computation(8) == _largest_computation(4)
