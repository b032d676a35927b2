"""A product of few rows with a large matrix's transpose, as in BERT's tied output layer."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.graph import LoweredGraph
from paddle_ipu.xla.lowerings import linear

WIDTH, WORDS = 8, 64


def _product(rows: int) -> Any:
    """x [rows, 8], table [64, 8] -> x times the table's transpose, as JAX calls it."""
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [rows, WIDTH], "x")
    table = builder.addInputTensor("FLOAT", [WORDS, WIDTH], "table")
    turned = builder.aiOnnx.transpose([table], [1, 0])
    out = builder.aiOnnx.matmul([x, turned])
    graph = LoweredGraph(builder.model.graph)
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


def test_few_rows_and_a_large_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_LARGE", WORDS * WIDTH * 4)
    assert _is_turned(rows=4)
    x, table, incoming = _arrays(4)
    out, backward = jax.vjp(jax.jit(_product(4)), x, table)
    np.testing.assert_allclose(out, x @ table.T, rtol=1e-5, atol=1e-5)
    of_x, of_table = backward(incoming)
    np.testing.assert_allclose(of_x, incoming @ table, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_table, incoming.T @ x, rtol=1e-5, atol=1e-5)


def test_many_rows_or_a_small_matrix_multiply_as_they_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not _is_turned(rows=4)
    monkeypatch.setattr(linear, "_LARGE", WORDS * WIDTH * 4)
    assert not _is_turned(rows=200)
    monkeypatch.setattr(linear, "_LARGE", WORDS * WIDTH * 4 + 1)
    assert not _is_turned(rows=4)
