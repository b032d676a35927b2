"""Two sides' arrays of one tensor: where they differ, and by how much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu.verification.comparison import Comparison, compare


def compared(got: Any, expected: Any, dtype: str = "float32") -> Comparison:
    pair = (np.asarray(got, dtype), np.asarray(expected, dtype))
    return compare("y", got=[pair[0]], expected=[pair[1]], rtol=1e-3, atol=1e-6)


def test_comparison_measures_errors() -> None:
    row = compared([1.0, 2.5, -4.0], [1.0, 2.0, -4.0])
    assert (row.ok, row.differing, row.size, row.index) == (False, 1, 3, (1,))
    assert (row.max_abs, row.share, row.magnitude) == (0.5, 0.125, 4.0)
    assert (row.got, row.expected, row.micro_batch) == (2.5, 2.0, 0)
    assert "got 2.5, expected 2 at [1]; 1 of 3 elements differ" in row.numbers()


def test_an_error_beside_a_value_next_to_zero_is_no_large_share() -> None:
    row = compared([1e-30, 4.0], [1e-38, 4.0])
    assert row.ok and row.share == pytest.approx(1e-30 / 4)
    assert compared([0.0], [0.0]).share == 0.0
    assert compared([1.0], [0.0]).share == np.inf


def test_not_a_number_equals_itself_and_nothing_else() -> None:
    assert compared([np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf]).ok
    for got, expected in (([np.nan], [1.0]), ([1.0], [np.nan]), ([np.inf], [-np.inf])):
        row = compared(got, expected)
        assert not row.ok and row.max_abs == np.inf


def test_integers_must_be_equal() -> None:
    assert compared([1000000], [1000000], "int64").ok
    assert not compared([1000000], [1000001], "int64").ok
    assert not compared([True], [False], "bool").ok


def test_shape_and_dtype_must_be_equal() -> None:
    row = compared([[1.0]], [1.0])
    assert not row.ok and row.numbers() == "got shape [1, 1], expected [1]"
    got, expected = [np.ones(2, np.float32)], [np.ones(2, np.float64)]
    other = compare("y", got=got, expected=expected, rtol=0.0, atol=0.0)
    assert not other.ok and other.numbers() == "got dtype float32, expected float64"
    assert compared(np.zeros((0, 3)), np.zeros((0, 3))).ok
