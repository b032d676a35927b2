"""Compares arrays as strictly as their dtype allows, and says where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far numbers may lie apart: ``|got - expected| <= atol + rtol * |expected|``.

    Attributes:
        rtol: relative part.
        atol: absolute part.
        reason: why it is looser than the default of the dtype; "" for a default.
    """

    rtol: float
    atol: float
    reason: str = ""


EXACT = Tolerance(0.0, 0.0)

DEFAULTS: Mapping[str, Tolerance] = {
    "float16": Tolerance(1e-3, 1e-3),
    "bfloat16": Tolerance(1e-2, 1e-2),
    "float32": Tolerance(1e-5, 1e-6),
    # An IPU has no float64: what Paddle declares so is computed in float32.
    "float64": Tolerance(1e-5, 1e-6),
}
"""Tolerances by dtype name; every other dtype is compared exactly."""


def tolerance_for(*, dtype: str, override: Tolerance | None = None) -> Tolerance:
    """The tolerance of a dtype, or `override`, which must give a reason where it is looser.

    Raises:
        ValueError: `override` is looser than the default and gives no reason.
    """
    default = DEFAULTS.get(dtype, EXACT)
    if override is None:
        return default
    looser = override.rtol > default.rtol or override.atol > default.atol
    if looser and not override.reason.strip():
        raise ValueError(
            f"tolerance rtol {override.rtol:g}, atol {override.atol:g} is looser than {dtype}'s "
            f"rtol {default.rtol:g}, atol {default.atol:g}: give the reason."
        )
    return override


def assert_same(
    *, got: Any, expected: Any, what: str = "array", tolerance: Tolerance | None = None
) -> None:
    """Passes when shape and dtype are equal and all numbers within the tolerance.

    NaN equals NaN, an infinity equals itself.

    Args:
        got: the array to judge.
        expected: what it should be.
        what: how the message names it.
        tolerance: instead of the default of the dtype.

    Raises:
        AssertionError: they differ; the message names the element that is furthest off.
        ValueError: `tolerance` is looser than the default and gives no reason.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    chosen = tolerance_for(dtype=expected.dtype.name, override=tolerance)
    if got.shape != expected.shape:
        raise AssertionError(f"{what}: got shape {got.shape}, expected {expected.shape}")
    if got.dtype != expected.dtype:
        raise AssertionError(f"{what}: got dtype {got.dtype}, expected {expected.dtype}")
    close = _close(got, expected, chosen)
    if close.all():
        return
    index = _worst(got, expected, close)
    raise AssertionError(
        f"{what}: {int((~close).sum())} of {close.size} elements differ; at {list(index)} got "
        f"{got[index]!s}, expected {expected[index]!s} (rtol {chosen.rtol:g}, atol "
        f"{chosen.atol:g})"
    )


def _close(got: Array, expected: Array, tolerance: Tolerance) -> Array:
    if not np.issubdtype(expected.dtype, np.inexact) and expected.dtype.name != "bfloat16":
        return np.asarray(got == expected)
    wide, target = got.astype(np.float64), expected.astype(np.float64)
    return np.isclose(wide, target, tolerance.rtol, tolerance.atol, equal_nan=True)


def _worst(got: Array, expected: Array, close: Array) -> tuple[int, ...]:
    """The index of the element that is furthest off, of those that are not close."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    distance = np.where(np.isnan(distance), np.inf, distance)
    flat = int(np.where(close, -1.0, distance).argmax())
    return tuple(int(axis) for axis in np.unravel_index(flat, close.shape))
