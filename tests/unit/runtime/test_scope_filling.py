"""Arrays copied into a Scope are there bit by bit, whatever their size, type and place are."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from paddle_ipu.runtime import scope as scopes

TYPES = (
    "bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64",
)  # fmt: skip


def _array(dtype: str, shape: tuple[int, ...], skipped: int) -> np.ndarray:
    """Made of random bytes that begin `skipped` bytes behind an even place."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    size = int(np.prod(shape)) * kind.itemsize
    content = np.random.default_rng(7).integers(0, 2, skipped + size, np.uint8)
    return content[skipped:].view(kind).reshape(shape)


@pytest.mark.parametrize("skipped", [0, 3])
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 7), (1 << 18, 8)])
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_are_copied(dtype: str, shape: tuple[int, ...], skipped: int) -> None:
    array, scope = _array(dtype, shape, skipped), scopes.temporary()
    scopes.fill(scope, {"a": array, "b": array})
    for name in ("a", "b"):
        found = scopes.numbers(np.array(scope.find_var(name).get_tensor()))
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()


def test_a_variable_is_given_another_shape_and_type() -> None:
    scope = scopes.temporary()
    scopes.fill(scope, {"a": np.ones((1 << 19, 2), np.float64)})
    scopes.fill(scope, {"a": np.arange(1 << 20, dtype=np.int32)})
    found = np.array(scope.find_var("a").get_tensor())
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.arange(1 << 20))
