"""Arrays joined by their kernel are those that NumPy joins."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.concatenation import joined

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    library.version() is None, reason=f"no kernel here: {library.why_not()}"
)


def _numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(dtype)


def _check(arrays: list[Array], axis: int) -> None:
    found = jax.jit(lambda *given: joined(given, axis))(*arrays)
    expected = np.concatenate(arrays, axis)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(found), expected)


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    others=st.lists(st.integers(1, 4), min_size=0, max_size=3),
    place=st.integers(0, 3),
    dtype=st.sampled_from([np.float32, np.int32, np.int8, np.float16, np.bool_]),
)
def test_any_shape_and_type(sizes: list[int], others: list[int], place: int, dtype: Any) -> None:
    axis = min(place, len(others))
    arrays = [
        _numbers(*others[:axis], size, *others[axis:], dtype=dtype, seed=seed)
        for seed, size in enumerate(sizes)
    ]
    _check(arrays, axis)


@pytest.mark.parametrize("shape", [(1, 300_001), (3, 100_001), (700, 333)], ids=str)
def test_parts_of_large_results_fit_together(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts end inside of rows, of arrays, and between them."""
    monkeypatch.setattr(library, "threads", lambda: 4)
    rows, columns = shape
    arrays = [_numbers(rows, columns), _numbers(rows, 1, seed=1), _numbers(rows, 77, seed=2)]
    _check(arrays, 1)
    _check([array.T.copy() for array in arrays], 0)


@pytest.mark.parametrize(
    ("spec", "size", "message"),
    [
        ((2, 1), 9, "arrays that do not fit its result"),
        ((3, 1), 10, "an array without so many rows"),
        ((0, 1), 10, "no spec"),
        ((2,), 10, "no spec"),
    ],
)
def test_calls_that_do_not_fit(spec: tuple[int, ...], size: int, message: str) -> None:
    kind = jax.ShapeDtypeStruct((size,), np.float32)
    call = jax.ffi.ffi_call(library.CONCATENATION_TARGET, kind)
    given = np.zeros(4, np.float32), np.zeros(6, np.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"a concatenation: {message}"):
        jax.block_until_ready(call(*given, spec=np.asarray(spec, np.int64)))
