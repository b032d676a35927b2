"""Wrappers around lowerings: their order, and what they collect with and without recomputation."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.lowerings.range_checks import RangeChecks
from paddle_ipu.xla.step.evaluation import Differentiation
from paddle_ipu.xla.step.finite_checks import FiniteFlags
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.node_lowering import Evaluate, composed
from paddle_ipu.xla.step.recomputation import Segment
from paddle_ipu.xla.step.side_values import SideValues


def test_the_first_wrapper_sees_operands_first_and_results_last() -> None:
    calls: list[str] = []

    def wrapper(name: str) -> Any:
        def wrapped(node: Any, operands: Sequence[Any], evaluate: Evaluate) -> Sequence[Any]:
            calls.append(f"before {name}")
            results = evaluate(node, operands)
            calls.append(f"behind {name}")
            return results

        return wrapped

    node: Any = SimpleNamespace()
    evaluate = composed([wrapper("outer"), wrapper("inner")], lambda node, operands: operands)
    assert evaluate(node, [None]) == [None]
    assert calls == ["before outer", "before inner", "behind inner", "behind outer"]


INDICES = np.asarray([3, 0, 7], np.int32)


def _tied_projection() -> tuple[LoweredGraph, str]:
    """The sum of ``tanh(table[x] @ table.T)``, table [8, 4]."""
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnx
    x = builder.addInputTensor("INT32", [len(INDICES)], "x")
    table = builder.addInputTensor("FLOAT", [8, 4], "table")
    rows = onnx.gather([table, x])
    product = onnx.matmul([rows, onnx.transpose([table], [1, 0])])
    total = onnx.reducesum([onnx.tanh([product])])
    return LoweredGraph(builder.model.graph), total


@pytest.mark.parametrize("recomputed", [False, True])
def test_gradients_flags_and_range_checks(recomputed: bool) -> None:
    graph, total = _tied_projection()
    last = len(graph.nodes)
    first = tuple(name for node in graph.nodes[:3] for name in node.outputs)
    segments = (
        Segment(0, 3, recomputed, frozenset(), first),
        Segment(3, last, False, frozenset(), ()),
    )

    def evaluated(table: jax.Array) -> tuple[jax.Array, Any]:
        side = SideValues({}, FiniteFlags(), RangeChecks())
        env = graph.evaluate(
            {"x": jnp.asarray(INDICES), "table": table},
            training=True,
            key=jax.random.key(0),
            side=side,
            backward=Differentiation(trained=("table",), segments=segments),
        )
        assert isinstance(side.checks, RangeChecks) and side.finite is not None
        assert [check.high for check in side.checks.checks] == [7]
        return jnp.reshape(env[total], ()), (side.finite.stacked(), side.checks.stacked())

    table = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    (value, (flags, extremes)), gradient = jax.value_and_grad(evaluated, has_aux=True)(
        jnp.asarray(table)
    )
    wide = table.astype(np.float64)
    tanh = np.tanh(wide[INDICES] @ wide.T)
    slope = 1 - tanh**2
    expected = slope.T @ wide[INDICES]
    np.add.at(expected, INDICES, slope @ wide)
    np.testing.assert_allclose(value, tanh.sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
    assert flags.shape == (last,) and bool(flags.all())
    np.testing.assert_array_equal(extremes, [[0, 7]])


@pytest.mark.parametrize("view", ["", "reshape", "transpose", "unsqueeze", "expand", "identity"])
@pytest.mark.parametrize("first", ["sub", "add"])
@pytest.mark.parametrize("second", ["sub", "add"])
def test_constants_are_added_in_the_order_of_the_program(
    first: str, second: str, view: str
) -> None:
    """``(1 - x) + 1e-8`` is not ``(1 + 1e-8) - x``."""
    x = np.asarray([[1.0, 0.5, -1.0]], np.float32)
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnx
    name = builder.addInputTensor("FLOAT", list(x.shape), "x")
    one, small = (onnx.constant(np.asarray(value, np.float32)) for value in (1.0, 1e-8))
    mid = getattr(onnx, first)([one, name])
    more: dict[str, list[Any]] = {
        "reshape": [onnx.constant(np.asarray([3]))],
        "expand": [onnx.constant(np.asarray([2, 3]))],
    }
    if view:
        arguments = {"unsqueeze": ([0],), "transpose": ([1, 0],)}.get(view, ())
        mid = getattr(onnx, view)([mid, *more.get(view, [])], *arguments)
    out = getattr(onnx, second)([mid, small])
    graph = LoweredGraph(builder.model.graph)

    @jax.jit
    def run(x: jax.Array) -> jax.Array:
        return graph.evaluate({name: x}, training=False, key=jax.random.key(0))[out]

    before = 1 - x if first == "sub" else 1 + x
    expected = before + np.float32(1e-8) if second == "add" else before - np.float32(1e-8)
    got = np.asarray(run(jnp.asarray(x)))
    np.testing.assert_array_equal(np.ravel(got)[:3], np.ravel(expected))
