"""The gamma function's logarithm and its derivatives, against SciPy in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import special

f32 = np.float32

POSITIVE = np.concatenate(
    [np.linspace(0.01, 12, 20_001), np.geomspace(1e-30, 0.01, 100), np.geomspace(12, 1e30, 100)]
).astype(f32)
AT_ONE_AND_TWO = np.concatenate(
    [near + np.outer([-1, 1], np.geomspace(1e-6, 0.4, 1000)).ravel() for near in (1, 2)]
).astype(f32)
NEGATIVE = -np.concatenate([np.linspace(0.01, 15, 20_002), np.geomspace(15, 1e5, 100)]).astype(f32)


def _gap(got: Any, expected: Any, numbers: Sequence[float] = ()) -> Any:
    """How many last places of float32 each element is off; of `numbers`, where they are larger."""
    largest = np.max(np.abs([expected, *(np.full_like(expected, n) for n in numbers)]), axis=0)
    return np.abs(got - expected) / np.spacing(largest.astype(f32))


@pytest.mark.parametrize(
    ("op_type", "function"), [("Lgamma", special.gammaln), ("Digamma", special.digamma)]
)
def test_positive_numbers(lowered: Any, op_type: str, function: Callable[[Any], Any]) -> None:
    x = np.concatenate([POSITIVE, AT_ONE_AND_TWO])
    got = lowered(op_type, domain="ai.paddle_ipu")(x)
    assert got.dtype == f32
    # The zeros at 1 and 2 too; that of digamma is no number of float32.
    assert _gap(got, function(x.astype(np.float64))).max() < 4


def test_log_gamma_of_negative_numbers(lowered: Any) -> None:
    got = lowered("Lgamma", domain="ai.paddle_ipu")(NEGATIVE)
    expected = special.gammaln(NEGATIVE.astype(np.float64))
    finite = np.isfinite(expected)
    assert np.array_equal(finite, np.isfinite(got))
    # The zeros below -2 are the differences of two logarithms, of about 0.1 from -3 to -2.
    assert _gap(got[finite], expected[finite], [0.125]).max() < 4


def test_digamma_of_negative_numbers(lowered: Any) -> None:
    x = NEGATIVE[np.floor(NEGATIVE) != NEGATIVE]
    got = lowered("Digamma", domain="ai.paddle_ipu")(x)
    expected = special.digamma(x.astype(np.float64))
    # The sum of two numbers, of which digamma(1 - x) is one.
    mirrored = special.digamma(1 - x.astype(np.float64))
    assert (np.abs(got - expected) <= 5e-7 * np.maximum(abs(expected), abs(mirrored))).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 25])
def test_polygamma(lowered: Any, n: int) -> None:
    x = np.linspace(0.1 if n < 6 else 1.0, 15, 3001).astype(f32)
    got = lowered("Polygamma", {"n": n}, domain="ai.paddle_ipu")(x)
    expected = special.polygamma(n, x.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=5e-7)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_polygamma_of_negative_numbers(lowered: Any, n: int) -> None:
    x = np.concatenate([np.linspace(-60.375, -0.375, 241), [-1000.25]]).astype(f32)
    got = lowered("Polygamma", {"n": n}, domain="ai.paddle_ipu")(x)
    powers = np.array([_sum_of_powers(float(number), n + 1) for number in x])
    expected = (1 if n % 2 else -1) * special.factorial(n) * powers
    np.testing.assert_allclose(got, expected, rtol=5e-7)


def _sum_of_powers(x: float, n: int) -> float:
    steps = int(np.ceil(-x))
    return sum((x + step) ** -n for step in range(steps)) + special.zeta(n, x + steps)


def test_special_numbers(lowered: Any) -> None:
    x = np.array([0, -0.0, -1, -2e10, np.inf, -np.inf, np.nan, 4.2e36, 5e-39], f32)
    got = lowered("Lgamma", domain="ai.paddle_ipu")(x)
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(got, [inf] * 6 + [nan, inf, inf])
    got = lowered("Digamma", domain="ai.paddle_ipu")(x[:7])
    np.testing.assert_array_equal(got, [-inf, inf, nan, nan, inf, nan, nan])
