"""Attention by its kernel gives what NumPy gives in float64, wherever its operands lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.attention import AttentionSpec, Strides, attended

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("vector_lanes")


def _strides(heads: int, rows: int, width: int, by_row: bool) -> Strides:
    """Of arrays [examples, rows, heads, width], or [examples, heads, rows, width]."""
    inner = (width, heads * width) if by_row else (rows * width, width)
    return heads * rows * width, *inner


def _spec(
    batches: int = 2, heads: int = 3, rows: int = 30, columns: int = 40, depth: int = 16,
    width: int = 24, by_row: bool = True, scale: float = 0.25, threads: int = 2,
) -> AttentionSpec:  # fmt: skip
    return AttentionSpec(
        batches, heads, rows, columns, depth, width,
        query=_strides(heads, rows, depth, by_row),
        key=_strides(heads, columns, depth, by_row),
        value=_strides(heads, columns, width, by_row),
        result=_strides(heads, rows, width, by_row),
        mask=None, threads=threads, lanes=library.lanes(), scale=scale,
    )  # fmt: skip


def _arrays(spec: AttentionSpec, by_row: bool, seed: int = 0) -> tuple[Array, Array, Array]:
    """Q, K, V as the spec finds them."""
    random = np.random.default_rng(seed)

    def made(rows: int, width: int) -> Array:
        outer = (rows, spec.heads) if by_row else (spec.heads, rows)
        return random.standard_normal((spec.batches, *outer, width), np.float32)

    return (
        made(spec.rows, spec.depth),
        made(spec.columns, spec.depth),
        made(spec.columns, spec.width),
    )


def _by_head(array: Array, by_row: bool) -> Array:
    return (array.swapaxes(1, 2) if by_row else array).astype(np.float64)


def _expected(
    spec: AttentionSpec, arrays: tuple[Array, ...], mask: Any, by_row: bool
) -> tuple[Array, Array]:
    """The result, and the sums of the magnitudes that it sums."""
    query, key, value = (_by_head(array, by_row) for array in arrays)
    scores = spec.scale * query @ key.swapaxes(2, 3) + mask
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = spec.gain * powers / powers.sum(-1, keepdims=True)
    context, summed = weights @ value, weights @ abs(value)
    return (context.swapaxes(1, 2), summed.swapaxes(1, 2)) if by_row else (context, summed)


def _given(spec: AttentionSpec, arrays: tuple[Array, ...], mask: Any, by_row: bool) -> Array:
    outer = (spec.rows, spec.heads) if by_row else (spec.heads, spec.rows)
    shape = (spec.batches, *outer, spec.width)
    run = jax.jit(lambda *given: attended(spec, *given, shape))
    return np.asarray(run(*arrays, mask))


def _check(spec: AttentionSpec, by_row: bool, mask: Array | None = None) -> None:
    arrays = _arrays(spec, by_row)
    expected, summed = _expected(spec, arrays, 0 if mask is None else mask, by_row)
    found = _given(spec, arrays, mask, by_row)
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(summed), spec


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 70), st.integers(1, 70),
    st.integers(1, 40), st.integers(1, 70), st.booleans(), st.integers(1, 3),
)  # fmt: skip
def test_any_size(
    batches: int, heads: int, rows: int, columns: int, depth: int, width: int, by_row: bool,
    threads: int,
) -> None:  # fmt: skip
    _check(_spec(batches, heads, rows, columns, depth, width, by_row, threads=threads), by_row)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 5), st.integers(1, 70), st.integers(1, 140), st.integers(1, 140),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_few_rows_of_a_decoder(
    rows: int, columns: int, depth: int, width: int, by_row: bool, masked: bool
) -> None:
    spec = _spec(2, 3, rows, columns, depth, width, by_row, scale=depth**-0.5)
    mask = np.random.default_rng(2).standard_normal((1, 1, rows, columns), np.float32)
    if masked:
        spec = replace(spec, mask=(0, 0, columns, 1), gain=-0.9)
    _check(spec, by_row, mask if masked else None)


def test_a_row_does_not_see_what_lies_behind_its_keys_and_values() -> None:
    """Sizes that are no whole vectors, with NaN behind each row and behind the last."""
    spec = _spec(2, 3, 2, 37, 13, 27, by_row=True)
    arrays = _arrays(spec, by_row=True)
    expected, _ = _expected(spec, arrays, 0, by_row=True)
    wide = [
        np.pad(array, ((0, 0), (0, 1), (0, 0), (0, 7)), constant_values=np.nan) for array in arrays
    ]
    inside = [tuple(step // 4 for step in array.strides) for array in wide]
    query, key, value = ((outer, head, row) for outer, row, head, _ in inside)
    found = _given(replace(spec, query=query, key=key, value=value), tuple(wide), None, by_row=True)
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


def test_few_heads_are_cut_into_rows_for_several_threads() -> None:
    _check(_spec(1, 1, 517, 300, 64, 64), by_row=True)


@settings(deadline=None, max_examples=30)
@given(st.tuples(*[st.booleans()] * 4), st.booleans())
def test_a_mask_of_any_shape_is_added(wide: tuple[bool, ...], by_row: bool) -> None:
    spec = _spec(by_row=by_row)
    whole = (spec.batches, spec.heads, spec.rows, spec.columns)
    shape = tuple(size if own else 1 for size, own in zip(whole, wide, strict=True))
    mask = np.random.default_rng(1).standard_normal(shape, np.float32)
    steps = [step // 4 if size > 1 else 0 for step, size in zip(mask.strides, shape, strict=True)]
    spec = replace(spec, mask=(steps[0], steps[1], steps[2], steps[3]))
    _check(spec, by_row, mask)


def test_what_the_result_is_multiplied_by() -> None:
    _check(replace(_spec(), gain=-0.9), by_row=True)


def test_one_key_for_all_heads_and_examples() -> None:
    spec = _spec()
    query, key, value = _arrays(spec, by_row=True)
    shared = replace(spec, key=(0, 0, spec.heads * spec.depth))
    found = _given(shared, (query, key, value), None, by_row=True)
    key = np.broadcast_to(key[:1, :, :1], key.shape)
    expected, _ = _expected(spec, (query, key, value), 0, by_row=True)
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


def test_scores_far_apart_and_masked_ones() -> None:
    spec = replace(_spec(scale=40.0), mask=(0, 0, 0, 1))
    mask = np.zeros((1, 1, 1, spec.columns), np.float32)
    mask[..., 5:20] = -np.inf
    mask[..., 25:30] = np.finfo(np.float32).min
    _check(spec, True, mask)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_reach_their_own_rows_only(odd: float) -> None:
    spec = _spec()
    query, key, value = _arrays(spec, by_row=True)
    query[1, 7, 2, 3] = odd
    key[..., 3] = np.abs(key[..., 3])
    found = _given(spec, (query, key, value), None, by_row=True)
    is_odd = np.zeros(found.shape, bool)
    is_odd[1, 7, 2] = True
    np.testing.assert_array_equal(np.isnan(found), is_odd)


def test_a_row_of_which_everything_is_masked_is_nan_as_with_numpy() -> None:
    spec = replace(_spec(), mask=(0, 0, 40, 1))
    mask = np.zeros((1, 1, spec.rows, spec.columns), np.float32)
    mask[:, :, 4] = -np.inf
    found = _given(spec, _arrays(spec, by_row=True), mask, by_row=True)
    np.testing.assert_array_equal(np.isnan(found).any((0, 2, 3)), np.arange(spec.rows) == 4)


def test_operands_behind_each_other_in_one_array() -> None:
    spec = _spec(width=16)
    arrays = _arrays(replace(spec, rows=spec.columns), by_row=True)
    spec = replace(spec, rows=spec.columns, result=_strides(3, spec.columns, 16, by_row=True))
    together = np.concatenate(arrays, axis=2)
    each = spec.heads * spec.depth
    strides = (3 * each * spec.rows, spec.depth, 3 * each)
    one = replace(spec, query=strides, key=strides, value=strides, offsets=(0, each, 2 * each))
    found = _given(one, (together, together, together), None, by_row=True)
    expected, _ = _expected(spec, arrays, 0, by_row=True)
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("short", ["query", "key", "value", "mask"])
def test_arrays_that_are_too_small_are_refused(short: str) -> None:
    spec = replace(_spec(), mask=(0, 0, 0, 1))
    names = ("query", "key", "value", "mask")
    mask = np.zeros(spec.columns, np.float32)
    arrays = dict(zip(names, (*_arrays(spec, by_row=True), mask), strict=True))
    arrays[short] = arrays[short].reshape(-1)[:-1]
    with pytest.raises(jax.errors.JaxRuntimeError, match="attention: arrays smaller than its spec"):
        _given(spec, tuple(arrays[name] for name in names[:3]), arrays["mask"], by_row=True)
