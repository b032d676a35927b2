"""Stochastic rounding by its kernel: bit by bit what XLA computes of the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from paddle_ipu.xla.kernels import library, rounding
from paddle_ipu.xla.precision import stochastic

Array = np.ndarray[Any, Any]
Round = Callable[[Any, Any], jax.Array]

pytestmark = pytest.mark.usefixtures("vector_lanes")

DTYPES = {"float16": stochastic.to_float16, "bfloat16": stochastic.to_bfloat16}

_SPECIAL = np.float32(
    [np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, 65504, -65504, 65519, 65536, -1e38, 2**-14, 2**-24]
)

_words = st.integers(0, 2**32 - 1)


def _spread(count: int, seed: int = 0) -> Array:
    """Numbers of every size that half has, and beyond."""
    random = np.random.default_rng(seed)
    found = random.standard_normal(count) * 2.0 ** random.integers(-30, 20, count)
    return np.concatenate([found.astype(np.float32), _SPECIAL])[:count][::-1].copy()


def _bits(of: Round, x: Array, site: Array) -> Array:
    return np.asarray(jax.jit(of)(x, site)).view(np.uint32)


def _by_kernel(dtype: str) -> Round:
    return lambda x, site: rounding.rounded(x, site, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=30, deadline=None)
@given(
    x=arrays.arrays(np.uint32, st.integers(0, 70), elements=_words),
    site=arrays.arrays(np.uint32, 2, elements=_words),
)
def test_any_bits(dtype: str, x: Array, site: Array) -> None:
    # XLA takes denormals of float32 for zeros, or not, as the fusion has it.
    x = np.where(x & 0x7F800000, x, x & np.uint32(0x80000000)).view(np.float32)
    got, expected = _bits(_by_kernel(dtype), x, site), _bits(DTYPES[dtype], x, site)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(got[numbers], expected[numbers])
    assert np.isnan(got[~numbers].view(np.float32)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7, 11), (3, 40000), (0,), (2, 0)])
def test_shapes(dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "threads", lambda: 4)
    x = _spread(int(np.prod(shape))).reshape(shape)
    site = np.asarray([0x12345678, 0x9ABCDEF0], np.uint32)
    got = _bits(_by_kernel(dtype), x, site)
    assert got.shape == shape
    np.testing.assert_array_equal(got, _bits(DTYPES[dtype], x, site))


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_replicas_draw_by_their_own_sites(axes: tuple[int | None, int | None]) -> None:
    x, sites = _spread(3 * 70).reshape(3, 70), np.arange(6, dtype=np.uint32).reshape(3, 2)
    given = [array if axis == 0 else array[1] for array, axis in zip((x, sites), axes, strict=True)]
    got = _bits(jax.vmap(_by_kernel("float16"), axes), *given)
    np.testing.assert_array_equal(got, _bits(jax.vmap(stochastic.to_float16, axes), *given))
    if axes[1] == 0:
        np.testing.assert_array_equal(got[2], _bits(_by_kernel("float16"), *_last(given, axes)))


def _last(given: list[Array], axes: tuple[int | None, int | None]) -> list[Array]:
    return [array[2] if axis == 0 else array for array, axis in zip(given, axes, strict=True)]


def test_without_the_kernel_programs_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, site = _spread(1000), np.asarray([1, 2], np.uint32)

    def nearby() -> Round:
        return lambda x, site: stochastic.nearby(x, site, "float16")

    by_kernel = _bits(nearby(), x, site)
    assert library.ROUNDING_TARGET in jax.jit(nearby()).lower(x, site).as_text()
    monkeypatch.setattr(library, "lanes", lambda: 0)
    assert library.ROUNDING_TARGET not in jax.jit(nearby()).lower(x, site).as_text()
    np.testing.assert_array_equal(_bits(nearby(), x, site), by_kernel)


@pytest.mark.parametrize(
    ("spec", "words", "message"),
    [
        ((13, 1, 0), 2, "vectors that this processor does not have"),
        ((14, 1, None), 2, "neither float16 nor bfloat16"),
        ((13, 1, None), 3, "arrays that do not fit each other"),
        ((13, 1, None), 0, "arrays that do not fit each other"),
        ((13, 1, None), 8, "arrays that do not fit each other"),
        ((13,), 2, "no spec"),
    ],
)
def test_calls_that_do_not_fit(spec: tuple[int | None, ...], words: int, message: str) -> None:
    numbers = np.asarray([library.lanes() if n is None else n for n in spec], np.int64)
    kind = jax.ShapeDtypeStruct((5,), np.float32)
    call = jax.ffi.ffi_call(library.ROUNDING_TARGET, kind)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"stochastic rounding: {message}"):
        jax.block_until_ready(
            call(np.zeros(5, np.float32), np.zeros(words, np.uint32), spec=numbers)
        )
