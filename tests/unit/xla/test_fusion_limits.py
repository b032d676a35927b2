"""Rows of operators that XLA would fuse into ever longer kernels."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.lowerings import residuals
from paddle_ipu.xla.step import fusion_limits
from paddle_ipu.xla.step.graph import LoweredGraph

WIDTH = 16
Step = Callable[[Builder, str], str]


def centred(builder: Builder, x: str) -> str:
    """``x - mean(x)``: x is read twice, at other places each time."""
    return builder.aiOnnx.sub([x, builder.aiOnnx.reducemean([x], [1], 1)])


def rotated(builder: Builder, x: str) -> str:
    first, rest = (
        builder.aiGraphcore.slice([x], [end], [start], [1]) for start, end in [(0, 1), (1, WIDTH)]
    )
    return builder.aiOnnx.concat([rest, first], 1)


def summed_up(builder: Builder, x: str) -> str:
    axis = builder.aiOnnx.constant(np.asarray(1, np.int32))
    return builder.aiOnnx.cumsum([x, axis])


def doubled(builder: Builder, x: str) -> str:
    return builder.aiOnnx.add([x, x])


def row(step: Step, count: int, every: Step | None = None) -> tuple[LoweredGraph, str, str]:
    """`count` steps in a row from an input [4, WIDTH]; its id, and that of the result.

    Args:
        every: another step behind each eighth.
    """
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    source = x = builder.addInputTensor("FLOAT", [4, WIDTH], "x")
    for number in range(count):
        x = step(builder, x)
        if every is not None and number % 8 == 7:
            x = every(builder, x)
    graph = LoweredGraph(builder.model.graph)
    graph.keep([x])
    return graph, source, x


def multiplied(builder: Builder, x: str) -> str:
    weight = builder.addInitializedInputTensor(np.eye(WIDTH, dtype=np.float32))
    return builder.aiOnnx.matmul([x, weight])


@pytest.mark.parametrize(
    ("step", "weight"), [(doubled, 1), (centred, 5), (rotated, 16), (summed_up, 4)]
)
def test_a_row_ends_at_the_limit(step: Step, weight: int) -> None:
    steps = 4 * fusion_limits.LIMIT // weight
    graph, _, last = row(step, steps)
    assert len(graph.fusion_ends) == pytest.approx(4, abs=1)
    assert last not in graph.fusion_ends, "nothing reads the result"
    assert graph.has_barriers


def test_products_end_rows_by_themselves() -> None:
    graph, *_ = row(centred, 100, every=multiplied)
    assert not graph.has_barriers


def test_short_rows_are_left_as_they_are() -> None:
    graph, *_ = row(doubled, fusion_limits.LIMIT - 1)
    assert not graph.has_barriers


def test_rows_in_subgraphs_are_seen() -> None:
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [4, WIDTH], "x")
    body = builder.createSubgraphBuilder()
    y = inner = body.addInputTensor("FLOAT", [4, WIDTH])
    for _ in range(30):
        y = centred(body, y)
    body.addOutputTensor(y)
    assert inner != y
    out = builder.aiGraphcore.call([x], 1, body)[0]
    graph = LoweredGraph(builder.model.graph)
    graph.keep([out])
    assert graph.has_barriers


def _compiled(graph: LoweredGraph, function: Callable[[jax.Array], jax.Array]) -> str:
    options = dict(residuals.COMPILER_OPTIONS) if graph.has_barriers else {}
    lowered = jax.jit(function).lower(jnp.zeros((4, WIDTH)))
    return str(lowered.compile(compiler_options=options).as_text())


@pytest.mark.parametrize("step", [centred, rotated])
@pytest.mark.parametrize("is_gradient", [False, True], ids=["forward", "gradient"])
def test_code_grows_with_the_row_alone(step: Step, is_gradient: bool) -> None:
    """Twice the row is twice the code; without barriers it is four times or more."""

    def size(count: int) -> int:
        graph, source, last = row(step, count)

        def result(x: jax.Array) -> jax.Array:
            env = graph.evaluate({source: x}, training=False, key=jax.random.key(0))
            return jnp.sum(env[last] ** 2)

        return len(_compiled(graph, jax.grad(result) if is_gradient else result))

    assert size(52) < 2.3 * size(26)


def test_numbers_and_gradients_stay() -> None:
    graph, source, last = row(centred, 30)

    def result(x: jax.Array) -> jax.Array:
        env = graph.evaluate({source: x}, training=False, key=jax.random.key(0))
        return jnp.sum(env[last] ** 2)

    x = np.random.default_rng(0).normal(size=(4, WIDTH)).astype(np.float32)
    value, gradient = jax.value_and_grad(result)(jnp.asarray(x))
    expected = x - x.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(value, (expected**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, 2 * expected, rtol=1e-4, atol=1e-5)
