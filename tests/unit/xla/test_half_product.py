"""Products with half partials by their kernel: the sums of the definition, and XLA's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.precision import half, partials

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("vector_lanes")


def _whole(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers, of which float32 adds any in any order alike."""
    return np.random.default_rng(seed).integers(-7, 8, shape).astype(np.float32)


def _by_definition(x: Array, y: Array) -> Array:
    """``x @ y``: blocks of 16 products added up in float16."""
    total = np.zeros(np.matmul(x[..., :1], y[..., :1, :]).shape, np.float16)
    for at in range(0, x.shape[-1], 16):
        block = np.matmul(x[..., at : at + 16], y[..., at : at + 16, :])
        with np.errstate(over="ignore"):
            total = (total + block).astype(np.float16)
    return total.astype(np.float32)


def _computed(x: Array, y: Array, x_turned: bool = False, y_turned: bool = False) -> Array:
    given = [
        np.ascontiguousarray(np.swapaxes(array, -1, -2)) if turned else array
        for array, turned in ((x, x_turned), (y, y_turned))
    ]

    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return partials.summed_product(x, y, x_turned, y_turned)

    return np.asarray(jax.jit(product, compiler_options=dict(half.COMPILER_OPTIONS))(*given))


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 40), st.integers(1, 70), st.integers(1, 70)]),
    turned=st.tuples(st.booleans(), st.booleans()),
    batches=st.sampled_from([((), ()), ((3,), ()), ((2, 1), (2,)), ((2,), (2,)), ((), (2,))]),
)
def test_sums_are_those_of_the_definition(
    sizes: tuple[int, int, int],
    turned: tuple[bool, bool],
    batches: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    rows, depth, columns = sizes
    # Sums that half has not: above 2048 it has even numbers only.
    x, y = 16 * _whole(*batches[0], rows, depth), _whole(*batches[1], depth, columns, seed=1)
    np.testing.assert_array_equal(_computed(x, y, *turned), _by_definition(x, y))


@pytest.mark.parametrize(("rows", "columns"), [(3000, 40), (5, 3000), (700, 700)])
def test_parts_of_large_products_fit_together(
    rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "threads", lambda: 4)
    x, y = 16 * _whole(rows, 200), _whole(200, columns, seed=1)
    expected = _by_definition(x, y)
    for x_turned in (False, True):
        for y_turned in (False, True):
            np.testing.assert_array_equal(_computed(x, y, x_turned, y_turned), expected)


def test_what_half_cannot_hold() -> None:
    x = np.float32([[np.inf, 1], [np.nan, 1], [60000, 60000], [2.0**-24, 0], [-60000, 0]])
    y = np.float32([[1, 0.5], [1, 0]])
    got = _computed(x, y)
    expected = np.float32(
        [[np.inf, np.inf], [np.nan, np.nan], [np.inf, 30000], [2.0**-24, 0], [-60000, -30000]]
    )
    np.testing.assert_array_equal(got, expected)


def test_an_axis_without_elements() -> None:
    assert _computed(np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)).shape == (3, 4)
    assert _computed(np.zeros((0, 3), np.float32), np.zeros((3, 4), np.float32)).shape == (0, 4)


def test_xla_sums_likewise_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = 16 * _whole(2, 20, 70), _whole(70, 30, seed=1)
    by_kernel = _computed(x, y)
    monkeypatch.setattr(library, "lanes", lambda: 0)
    np.testing.assert_array_equal(_computed(x, y), by_kernel)


def test_replicas_are_computed_one_by_one() -> None:
    x, y = 16 * _whole(3, 20, 70), _whole(3, 70, 30, seed=1)
    got = jax.vmap(partials.summed_product)(x, y)
    np.testing.assert_array_equal(np.asarray(got), _by_definition(x, y))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 2, 4, 3, 0, 0, 1, 0), "vectors that this processor does not have"),
        ((1, 2, 0, 3, 0, 0, 1, None), "an axis without elements"),
        ((1, 2, 5, 3, 0, 0, 1, None), "arrays that do not fit its spec"),
        ((1, 2), "no spec"),
    ],
)
def test_specs_that_do_not_fit(sizes: tuple[int | None, ...], message: str) -> None:
    spec = np.asarray([library.lanes() if size is None else size for size in sizes], np.int64)
    kind = jax.ShapeDtypeStruct((1, 2, 4), np.float32)
    call = jax.ffi.ffi_call(library.HALF_PRODUCT_TARGET, kind)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"a product in half: {message}"):
        jax.block_until_ready(call(_whole(1, 2, 3), _whole(1, 3, 4), spec=spec))
