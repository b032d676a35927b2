"""A product of few rows with a large matrix's transpose, as in BERT's tied output layer."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.lowerings import linear
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.side_values import SideValues

WIDTH, WORDS = 8, 64


def _graph(rows: int) -> tuple[LoweredGraph, str, str]:
    """x [rows, 8], table [64, 8]: the graph, the table's transpose, x times that."""
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [rows, WIDTH], "x")
    table = builder.addInputTensor("FLOAT", [WORDS, WIDTH], "table")
    turned = builder.aiOnnx.transpose([table], [1, 0])
    out = builder.aiOnnx.matmul([x, turned])
    return LoweredGraph(builder.model.graph), turned, out


def _product(rows: int) -> Any:
    """The product of x and the table's transpose, as JAX calls it."""
    graph, _, out = _graph(rows)
    return lambda x, table: graph.evaluate(
        {"x": x, "table": table}, training=True, key=jax.random.key(0)
    )[out]


def _arrays(rows: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    shapes = ((rows, WIDTH), (WORDS, WIDTH), (rows, WORDS))
    x, table, incoming = (random.standard_normal(shape, np.float32) for shape in shapes)
    return x, table, incoming


def _is_turned(rows: int) -> bool:
    x, table, _ = _arrays(rows)
    text = jax.jit(_product(rows)).lower(x, table).as_text()
    return f"-> tensor<{WORDS}x{rows}xf32>" in text


@pytest.mark.parametrize("rows", [1, 4, 128])
def test_few_rows_and_a_large_matrix(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(linear, "_LARGE_TABLE", WORDS * WIDTH * 4)
    assert _is_turned(rows)
    x, table, incoming = _arrays(rows)
    out, backward = jax.vjp(jax.jit(_product(rows)), x, table)
    np.testing.assert_allclose(out, x @ table.T, rtol=1e-5, atol=1e-5)
    of_x, of_table = backward(incoming)
    np.testing.assert_allclose(of_x, incoming @ table, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_table, incoming.T @ x, rtol=1e-5, atol=1e-5)


def test_many_rows_or_a_small_matrix_multiply_as_they_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not _is_turned(rows=4)
    monkeypatch.setattr(linear, "_LARGE_TABLE", WORDS * WIDTH * 4)
    assert not _is_turned(rows=129)
    monkeypatch.setattr(linear, "_LARGE_TABLE", WORDS * WIDTH * 4 + 1)
    assert not _is_turned(rows=4)


def test_the_gradient_of_the_transpose_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for it makes the product read it: that of the turned product would be zero."""
    monkeypatch.setattr(linear, "_LARGE_TABLE", WORDS * WIDTH * 4)
    graph, turned, out = _graph(rows=4)
    x, table, incoming = _arrays(4)

    def product(tap: Any) -> Any:
        values = {"x": x, "table": table}
        key = jax.random.key(0)
        return graph.evaluate(values, training=True, key=key, side=SideValues({turned: tap}))[out]

    _, backward = jax.vjp(product, np.zeros((WIDTH, WORDS), np.float32))
    np.testing.assert_allclose(backward(incoming)[0], x.T @ incoming, rtol=1e-5, atol=1e-5)
