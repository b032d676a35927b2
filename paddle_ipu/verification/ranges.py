"""How large a tensor's values are, and which of them half precision cannot hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HALF_LARGEST = 65504.0
"""The largest number of float16; from 65520 on a value rounds to infinity."""
_OVERFLOW_FROM = 65520.0
_SMALLEST_NORMAL, _SMALLEST = -14, -24
_ROUNDS_TO_ZERO = 2.0 ** (_SMALLEST - 1)
_NORMAL_FROM = 2.0**_SMALLEST_NORMAL


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The values of one tensor.

    Attributes:
        size: how many there are.
        nan, infinite, zero: how many are that.
        smallest, largest: of the absolute values that are finite and not zero; 0 without any.
        overflow: finite ones that float16 rounds to infinity.
        underflow: ones that are not zero and that float16 rounds to zero.
        subnormal: ones that float16 holds with fewer than its 11 bits.
        exponents: ``floor(log2(abs(value)))`` -> how many finite values have it, zeros apart.
    """

    size: int
    nan: int
    infinite: int
    zero: int
    smallest: float
    largest: float
    overflow: int
    underflow: int
    subnormal: int
    exponents: Mapping[int, int]

    @property
    def finite(self) -> bool:
        """True without a NaN and an infinity."""
        return not self.nan and not self.infinite

    def share(self, count: int) -> float:
        """A count as a share of all values."""
        return count / self.size if self.size else 0.0


def measure(arrays: Iterable[Array], scale: float = 1.0) -> ValueRange:
    """The range of one tensor over micro-batches, its values times `scale`."""
    size = nan = infinite = zero = overflow = underflow = subnormal = 0
    smallest, largest = np.inf, 0.0
    exponents: Counter[int] = Counter()
    for array in arrays:
        values = np.abs(np.asarray(array, np.float64)).ravel() * scale
        size += values.size
        finite = values[np.isfinite(values)]
        is_nan = int(np.isnan(values).sum())
        nan += is_nan
        infinite += values.size - finite.size - is_nan
        nonzero = finite[finite > 0]
        zero += finite.size - nonzero.size
        if not nonzero.size:
            continue
        smallest, largest = min(smallest, float(nonzero.min())), max(largest, float(nonzero.max()))
        overflow += int((nonzero >= _OVERFLOW_FROM).sum())
        underflow += int((nonzero <= _ROUNDS_TO_ZERO).sum())
        subnormal += int(((nonzero > _ROUNDS_TO_ZERO) & (nonzero < _NORMAL_FROM)).sum())
        powers, counts = np.unique(np.frexp(nonzero)[1] - 1, return_counts=True)
        exponents.update(dict(zip(powers.tolist(), counts.tolist(), strict=True)))
    return ValueRange(
        size, nan, infinite, zero, smallest if exponents else 0.0, largest, overflow, underflow,
        subnormal, dict(sorted(exponents.items())),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """What a loss scale does to the gradients that backward computes in half.

    Attributes:
        scale: the factor on the loss.
        underflow, subnormal, overflow: share of the gradient values that are not zero.
    """

    scale: float
    underflow: float
    subnormal: float
    overflow: float


def scale_table(gradients: Iterable[ValueRange], scales: Iterable[float]) -> list[ScaleRow]:
    """The shares for each power of two in `scales`, from ranges of gradients without a scale."""
    counts: Counter[int] = Counter()
    for gradient in gradients:
        counts.update(gradient.exponents)
    total = sum(counts.values()) or 1
    rows = []
    for scale in scales:
        shift = round(np.log2(scale))
        moved = [(exponent + shift, count) for exponent, count in counts.items()]
        rows.append(
            ScaleRow(
                scale,
                sum(n for e, n in moved if e < _SMALLEST - 1) / total,
                sum(n for e, n in moved if _SMALLEST - 1 <= e < _SMALLEST_NORMAL) / total,
                sum(n for e, n in moved if e >= 16) / total,
            )
        )
    return rows


def best_scale(gradients: Iterable[ValueRange], headroom: int = 2) -> float | None:
    """The largest power of two that leaves every gradient `headroom` binades below overflow.

    None without gradients; never below 1 or above 2^24.
    """
    largest = max((gradient.largest for gradient in gradients), default=0.0)
    if not largest:
        return None
    exponent = 16 - headroom - int(np.frexp(largest)[1])
    return float(2.0 ** min(max(exponent, 0), 24))
