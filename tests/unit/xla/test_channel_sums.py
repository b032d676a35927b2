"""Sums by channel, of batch norm and its gradient: beside NumPy's in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from paddle_ipu.xla.kernels import channel_sums, library
from paddle_ipu.xla.lowerings import normalization

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("vector_lanes")


def _numbers(shape: tuple[int, ...], seed: int = 0, mean: float = 0.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) + mean).astype(np.float32)


def _check_moments(x: Array, rtol: float = 1e-5) -> None:
    mean, variance = jax.jit(channel_sums.moments)(x)
    axes, wide = tuple(range(x.ndim - 1)), x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(axes), rtol, 1e-6)
    np.testing.assert_allclose(variance, wide.var(axes), rtol)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 3000), channels=st.integers(1, 70), seed=st.integers(0, 9))
def test_moments(rows: int, channels: int, seed: int) -> None:
    _check_moments(_numbers((rows, channels), seed))


@pytest.mark.parametrize(
    "shape", [(2, 20, 20, 64), (500, 2048), (3, 40000), (21, 9001), (4, 25, 1000)]
)
def test_moments_of_several_blocks(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "threads", lambda: 4)
    _check_moments(_numbers(shape))


@pytest.mark.parametrize("rows", [2048, 800000], ids=["a block", "many blocks"])
def test_rounding_does_not_grow_with_rows(rows: int) -> None:
    """Sums of single rows would be off by 1e-6 to 2e-6 within a block."""
    x = _numbers((rows, 16), mean=4.0)
    mean, variance = jax.jit(channel_sums.moments)(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), 6e-7)
    np.testing.assert_allclose(variance, wide.var(0), 6e-7)
    zeros, ones = np.zeros(16, np.float32), np.ones(16, np.float32)
    total, along = jax.jit(channel_sums.gradient_sums)(x, x, zeros, ones)
    np.testing.assert_allclose(total, wide.sum(0), 6e-7)
    np.testing.assert_allclose(along, (wide**2).sum(0), 6e-7)


def test_a_large_mean_does_not_cancel() -> None:
    _check_moments(_numbers((5000, 24), mean=3000.0), rtol=1e-4)


def test_numbers_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, found = _numbers((20000, 48)), []
    for threads in (1, 3, 8):
        monkeypatch.setattr(library, "threads", lambda threads=threads: threads)
        found.append(np.stack(jax.jit(channel_sums.moments)(x)))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_numbers_that_are_not_finite_stay_in_their_channel() -> None:
    x = _numbers((3000, 20))
    x[7, 3], x[8, 5] = np.nan, np.inf
    mean, variance = jax.jit(channel_sums.moments)(x)
    assert np.isnan(mean[3])
    assert np.isinf(mean[5])
    assert np.flatnonzero(~np.isfinite(variance)).tolist() == [3, 5]


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 3000), channels=st.integers(1, 70), seed=st.integers(0, 9))
def test_sums_of_a_gradient(rows: int, channels: int, seed: int) -> None:
    gradient, x = _numbers((rows, channels), seed), _numbers((rows, channels), seed + 10)
    mean, inverse = _numbers((channels,), seed + 20), _numbers((channels,), seed + 30)
    total, along = jax.jit(channel_sums.gradient_sums)(gradient, x, mean, inverse)
    wide, normal = gradient.astype(np.float64), (x.astype(np.float64) - mean) * inverse
    close = {"rtol": 1e-5, "atol": 1e-6 * rows}
    np.testing.assert_allclose(total, wide.sum(0), **close)
    np.testing.assert_allclose(along, (wide * normal).sum(0), **close)


def test_replicas_have_sums_of_their_own() -> None:
    x, gradient = _numbers((3, 400, 50)), _numbers((3, 400, 50), 1)
    mean, variance = jax.jit(jax.vmap(channel_sums.moments))(x)
    np.testing.assert_allclose(mean, x.mean(1), 1e-5, 1e-6)
    np.testing.assert_allclose(variance, x.var(1), 1e-5)
    # One x for all gradients.
    sums = jax.vmap(channel_sums.gradient_sums, (0, None, None, 0))
    total, along = jax.jit(sums)(gradient, x[1], mean[1], mean)
    np.testing.assert_allclose(total, gradient.sum(1), 1e-5, 1e-4)
    expected = (gradient * (x[1] - mean[1])).sum(1) * mean
    np.testing.assert_allclose(along, expected, 1e-4, 1e-4)


def test_gradients_of_the_sums() -> None:
    x, gradient = jnp.asarray(_numbers((11, 5))), jnp.asarray(_numbers((11, 5), 1))
    mean, inverse = jnp.asarray(_numbers((5,), 2)), jnp.asarray(_numbers((5,), 3) + 4)
    check_grads(channel_sums.moments, (x,), 1, modes=["rev"], rtol=2e-2)
    operands = (gradient, x, mean, inverse)
    check_grads(channel_sums.gradient_sums, operands, 1, modes=["rev"], rtol=2e-2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ((10, 2, 1, 0), "vectors that this processor does not have"),
        ((0, 2, 1, None), "an empty axis"),
        ((9, 2, 1, None), "arrays that do not fit its spec"),
        ((5, 4, 1, None), "arrays that do not fit its spec"),
        ((10, 2), "no spec"),
    ],
)
def test_calls_that_do_not_fit(spec: tuple[int | None, ...], message: str) -> None:
    numbers = np.asarray([library.lanes() if n is None else n for n in spec], np.int64)
    kinds = (jax.ShapeDtypeStruct((2,), np.float32),) * 2
    call = jax.ffi.ffi_call(library.MOMENTS_TARGET, kinds)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"sums by channel: {message}"):
        jax.block_until_ready(call(np.zeros((10, 2), np.float32), spec=numbers))


def test_second_derivatives_of_batch_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    x, scale, bias = _numbers((2, 10, 32, 60)), _numbers((60,), 1), _numbers((60,), 2)

    def slope(x: jax.Array) -> jax.Array:
        y, _, _ = normalization._over_batch(x, scale, bias, 1e-5, False)
        return jnp.sum(y**3)

    def bend() -> Any:
        return jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(slope)(x) ** 2)))

    assert library.GRADIENT_SUMS_TARGET in bend().lower(x).as_text()
    by_kernels = bend()(x)
    monkeypatch.setattr(library, "lanes", lambda: 0)
    jax.clear_caches()
    assert library.GRADIENT_SUMS_TARGET not in bend().lower(x).as_text()
    np.testing.assert_allclose(by_kernels, bend()(x), 1e-3, 1e-5 * np.abs(by_kernels).max())
