"""What keeps backward in order changes no gradient."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paddle_ipu.xla.lowerings import residuals
from paddle_ipu.xla.lowerings.activation import (
    gelu_erf,
    gelu_erf_slope,
    gelu_tanh,
    gelu_tanh_slope,
)
from paddle_ipu.xla.lowerings.normalization import normalised

RANDOM = np.random.default_rng(0)


def _numbers(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_gradients_that_come_together() -> None:
    x, w = _numbers(3, 4), _numbers(4, 2)

    def product(x: Any, w: Any) -> Any:
        x, w, _ = residuals.together((x, w, jnp.ones(())))
        return jnp.sum(jnp.sin(x @ w))

    plain = jax.jit(jax.grad(lambda x, w: jnp.sum(jnp.sin(x @ w)), (0, 1)))
    found, expected = jax.jit(jax.grad(product, (0, 1)))(x, w), plain(x, w)
    for got, array in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, array, rtol=1e-6)


def test_an_input_without_a_gradient_is_given_none() -> None:
    x, w = _numbers(3, 4), _numbers(4, 2)

    def product(w: Any) -> Any:
        rows, w = residuals.together((jnp.asarray(x), w))
        return jnp.sum(rows @ w)

    # One product for the loss, one for the gradient of w; the gradient of x would be a third.
    text = jax.jit(jax.value_and_grad(product)).lower(w).as_text()
    assert text.count("dot_general") == 2


@pytest.mark.parametrize("read_again", [True, False])
def test_a_table_and_its_rows_have_one_gradient(read_again: bool) -> None:
    table, indices = _numbers(5, 3), np.asarray([[4, 0], [4, 2]], np.int32)

    def loss(table: Any, rows: Any) -> Any:
        squares = jnp.sum(jnp.square(rows) * jnp.arange(1.0, 4.0))
        return squares + (jnp.sum(jnp.sin(table)) if read_again else 0.0)

    def handed_on(table: Any) -> Any:
        rows, later = residuals.rows_and_table(table, indices, ((5, 3), np.float32))
        return loss(later, rows)

    found = jax.jit(jax.grad(handed_on))(table)
    expected = jax.jit(jax.grad(lambda table: loss(table, table[indices])))(table)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_the_gradients_of_a_norm_and_of_its_statistics() -> None:
    x, scale, bias = _numbers(4, 3, 8), _numbers(8), _numbers(8)
    weights = _numbers(4, 3, 8), _numbers(4, 3, 1), _numbers(4, 3, 1)

    def plain(x: Any, scale: Any, bias: Any, epsilon: float) -> Any:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        inverse = 1 / jnp.sqrt(jnp.var(x, axis=-1, keepdims=True) + epsilon)
        return (x - mean) * inverse * scale + bias, mean, inverse

    def loss(function: Any) -> Any:
        def of(*arguments: Any) -> Any:
            results = function(*arguments, 1e-3)
            return sum(jnp.sum(w * r) for w, r in zip(weights, results, strict=True))

        return jax.jit(jax.grad(of, (0, 1, 2)))

    for got, array in zip(
        loss(normalised)(x, scale, bias), loss(plain)(x, scale, bias), strict=True
    ):
        np.testing.assert_allclose(got, array, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("function", "slope"), [(gelu_erf, gelu_erf_slope), (gelu_tanh, gelu_tanh_slope)]
)
def test_the_slope_of_agelu(function: Any, slope: Any) -> None:
    x = np.linspace(-6, 6, 101, dtype=np.float32)
    expected = jax.jit(jax.vmap(jax.grad(function)))(x)
    np.testing.assert_allclose(jax.jit(slope)(x), expected, rtol=1e-5, atol=1e-6)
