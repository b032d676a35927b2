"""Rounding to half and bfloat16 is NumPy's cast, and so is its derivative."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from paddle_ipu.xla.precision import half

Array = np.ndarray[Any, Any]

HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)
BFLOATS = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)


def _jit(function: Any) -> Any:
    return jax.jit(function, compiler_options=dict(half.COMPILER_OPTIONS))


_to_float16 = _jit(half.to_float16)
_to_bfloat16 = _jit(half.to_bfloat16)


def _as_numpy_casts(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _same(got: Any, expected: Array) -> None:
    got = np.asarray(got)
    assert got.dtype == np.float32
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    # Bits tell the zeros apart.
    np.testing.assert_array_equal(got[numbers].view(np.uint32), expected[numbers].view(np.uint32))


def test_every_half_is_its_own_rounding() -> None:
    wide = HALVES.astype(np.float32)
    _same(_to_float16(wide), wide)


def test_numbers_between_two_halves_go_to_the_nearest_and_ties_to_even() -> None:
    positive = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    above = np.append(positive[1:], np.float32(65536))
    ties = (positive + above) / 2
    values = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, 0)])
    values = np.concatenate([values, -values]).astype(np.float32)
    _same(_to_float16(values), _as_numpy_casts(values))


def test_large_numbers_overflow_to_infinity() -> None:
    values = np.asarray([65503, 65519.996, 65520, 1e10, np.inf, -65520, -np.inf, np.nan])
    values = values.astype(np.float32)
    _same(_to_float16(values), _as_numpy_casts(values))


# XLA on the CPU takes float32's own subnormal numbers for zeros; half has none that small.
_FLOATS = st.floats(width=32, allow_subnormal=False)
_SMALL = st.floats(-(2.0**-13), 2.0**-13, width=32, allow_subnormal=False)


@given(arrays(np.float32, 64, elements=_FLOATS))
def test_any_number_is_rounded_as_numpy_casts(values: Array) -> None:
    _same(_to_float16(values), _as_numpy_casts(values))


@given(arrays(np.float32, 64, elements=_SMALL))
def test_subnormal_halves_are_rounded_as_numpy_casts(values: Array) -> None:
    _same(_to_float16(values), _as_numpy_casts(values))


@given(arrays(np.float32, 64, elements=_FLOATS))
def test_bfloat16_is_rounded_as_ml_dtypes_casts(values: Array) -> None:
    with np.errstate(over="ignore"):
        expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    _same(_to_bfloat16(values), expected)


def test_every_bfloat16_is_its_own_rounding() -> None:
    wide = BFLOATS.astype(np.float32)
    normal = (np.abs(wide) >= np.finfo(np.float32).tiny) | (wide == 0) | np.isnan(wide)
    _same(_to_bfloat16(wide[normal]), wide[normal])


@pytest.mark.parametrize("function", [half.to_float16, half.to_bfloat16])
def test_what_several_sums_read_is_computed_and_rounded_once(function: Any) -> None:
    def step(x: Any) -> Any:
        near = function(jnp.exp(x))
        return near.sum(0), (near * near).sum(1), near.max()

    text = _jit(step).lower(np.ones((64, 48), np.float32)).compile().as_text()
    assert text.count(" exponential(") == 1


@pytest.mark.parametrize("function", [half.rounded, half.with_rounded_cotangent])
def test_cotangents_are_rounded(function: Any) -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    cotangent = np.geomspace(1e-9, 1e6, 64, dtype=np.float32)

    def backward(x: Any, cotangent: Any) -> Any:
        return jax.vjp(lambda x: function(x, "float16"), x)[1](cotangent)[0]

    _same(_jit(backward)(x, cotangent), _as_numpy_casts(cotangent))


def test_only_the_value_is_left_alone() -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    _same(_jit(lambda x: half.with_rounded_cotangent(x, "float16"))(x), x)
    _same(_jit(lambda x: half.rounded(x, "float16"))(x), _as_numpy_casts(x))


def test_what_is_stored_is_rounded_once() -> None:
    x = np.geomspace(1e-9, 1e6, 1000, dtype=np.float32)
    kept = np.asarray(_jit(lambda x: half.stored(x * jnp.float32(1.0), "float16"))(x))
    assert kept.dtype == np.float16
    _same(kept.astype(np.float32), _as_numpy_casts(x))
