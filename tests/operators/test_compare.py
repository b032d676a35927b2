"""The comparator: exact shape and dtype, tolerance by dtype, reasons for looser ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.compare import Tolerance, assert_same

ONE = np.ones((2, 3), np.float32)


def test_equal_arrays_pass_with_nan_and_infinity() -> None:
    special = np.asarray([np.nan, np.inf, -np.inf, 0.0], np.float32)
    assert_same(got=special.copy(), expected=special)


@pytest.mark.parametrize(
    ("got", "message"),
    [
        (ONE[:1], r"loss: got shape \(1, 3\), expected \(2, 3\)"),
        (ONE.astype(np.float64), "loss: got dtype float64, expected float32"),
        (
            ONE + np.eye(2, 3, dtype=np.float32) * [[0.5, 0, 0], [0, 2, 0]],
            r"loss: got dtype float64",
        ),
        (
            np.where(np.eye(2, 3) > 0, np.float32(3), ONE),
            r"off by 2.83, the norm of what is expected is 2.45 .* most at \[0, 0\], got 3",
        ),
        (np.where(np.eye(2, 3) > 0, np.float32("nan"), ONE), "got nan, expected 1.0"),
    ],
)
def test_a_difference_is_described(got: np.ndarray, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_same(got=got, expected=ONE, what="loss")


def test_float32_passes_within_its_tolerance_only() -> None:
    assert_same(got=ONE * np.float32(1 + 8e-7), expected=ONE)
    with pytest.raises(AssertionError, match="1e-06 of it"):
        assert_same(got=ONE * np.float32(1 + 2e-6), expected=ONE)


def test_integers_and_booleans_are_exact() -> None:
    with pytest.raises(AssertionError, match="got 1000000, expected 1000001"):
        assert_same(got=np.asarray([10**6, 1]), expected=np.asarray([10**6 + 1, 1]))
    with pytest.raises(AssertionError, match="got True, expected False"):
        assert_same(got=np.asarray(True), expected=np.asarray(False))


def test_a_looser_tolerance_needs_a_reason() -> None:
    got = ONE * np.float32(1 + 1e-4)
    with pytest.raises(ValueError, match="is looser than float32's .*: give the reason"):
        assert_same(got=got, expected=ONE, tolerance=Tolerance(1e-3))
    assert_same(got=got, expected=ONE, tolerance=Tolerance(1e-3, "rounded twice"))


def test_a_tighter_tolerance_needs_none() -> None:
    with pytest.raises(AssertionError, match="1e-07 of it"):
        assert_same(got=ONE * np.float32(1 + 8e-7), expected=ONE, tolerance=Tolerance(1e-7))
