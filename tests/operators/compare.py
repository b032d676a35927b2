"""Compares arrays as strictly as their dtype allows, and says where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far numbers may lie apart: ``norm(got - expected) <= relative * norm(expected)``.

    Attributes:
        relative: the largest allowed ratio of the two Euclidean norms.
        reason: why it is looser than the default of the dtype; "" for a default.
    """

    relative: float
    reason: str = ""


EXACT = Tolerance(0.0)

DEFAULTS: Mapping[str, Tolerance] = {
    "float16": Tolerance(1e-3),
    "bfloat16": Tolerance(1e-2),
    "float32": Tolerance(1e-6),
    # An IPU has no float64: what Paddle declares so is computed in float32.
    "float64": Tolerance(1e-6),
}
"""Tolerances by dtype name; every other dtype is compared exactly."""


def tolerance_for(*, dtype: str, override: Tolerance | None = None) -> Tolerance:
    """The tolerance of a dtype, or `override`, which must give a reason where it is looser.

    Raises:
        ValueError: `override` is looser than the default and gives no reason.
    """
    default = DEFAULTS.get(dtype, EXACT)
    if override is None or default is EXACT:
        return default
    if override.relative > default.relative and not override.reason.strip():
        raise ValueError(
            f"tolerance {override.relative:g} is looser than {dtype}'s {default.relative:g}: give "
            "the reason."
        )
    return override


def assert_same(
    *, got: Any, expected: Any, what: str = "array", tolerance: Tolerance | None = None
) -> None:
    """Passes when shape and dtype are equal and the numbers within the tolerance.

    NaN equals NaN, an infinity equals itself; integers and truth values must be equal.

    Args:
        got: the array to check.
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
    distance = _distance(got, expected)
    norm = float(np.linalg.norm(np.where(np.isfinite(distance), _wide(expected), 0.0)))
    off = float(np.linalg.norm(distance))
    if off <= chosen.relative * norm:
        return
    worst = tuple(int(at) for at in np.unravel_index(int(distance.argmax()), distance.shape))
    raise AssertionError(
        f"{what}: off by {off:.3g}, the norm of what is expected is {norm:.3g} (allowed: "
        f"{chosen.relative:g} of it); most at {list(worst)}, got {got[worst]!s}, expected "
        f"{expected[worst]!s}"
    )


def _wide(array: Array) -> Array:
    wide = array.astype(np.float64)
    return np.asarray(np.where(np.isfinite(wide), wide, 0.0))


def _distance(got: Array, expected: Array) -> Array:
    """The distance of each element; 0 for the same, infinity for NaN or infinity on one side."""
    if got.dtype.kind in "biu":
        # Two integers above 2**53 may differ and yet be one float64.
        apart = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        return np.asarray(np.maximum(apart, (got != expected).astype(np.float64)))
    left, right = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.where(left == right, 0.0, np.abs(left - right))
    distance = np.where(np.isnan(left) & np.isnan(right), 0.0, distance)
    return np.asarray(np.where(np.isnan(distance), np.inf, distance))
