"""One tensor of the IPU beside the same tensor of the other side: what differs, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu.verification import rounding

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor of the IPU beside the same one of the other side.

    Attributes:
        name: the tensor's name in the program.
        what: what it is, in words.
        source: ``file:line`` of the user's call it comes from, "" where there is none.
        ok: shape and dtype are equal and every element is within tolerance, or out of it by no more
            than rounding; beside another precision, the shape is equal and the drift within
            tolerance.
        shape, dtype: of the IPU's tensor, for one micro-batch.
        expected_shape, expected_dtype: of the other side's.
        max_abs: largest ``|got - expected|``; infinite where only one side is finite.
        magnitude: largest finite ``|expected|``.
        drift: norm of the error over the norm of `expected`; infinite where only one side is
            finite.
        not_finite: how many of the IPU's elements are NaN or infinite.
        differing: how many of the `size` elements are out of tolerance.
        got, expected: the element that is worst against its tolerance, at `index`.
        micro_batch: the first micro-batch out of tolerance, counted over the steps; else None.
        by_drift: judged by the drift, whatever the dtypes.
        rounding: some elements are out of tolerance, but by no more than rounding.
        noise: the drift that rounding makes on Paddle's own kernels; 0 where it was not measured.
    """

    name: str
    what: str
    source: str
    ok: bool
    shape: tuple[int, ...]
    expected_shape: tuple[int, ...]
    dtype: str
    expected_dtype: str
    max_abs: float
    magnitude: float
    drift: float
    not_finite: int
    differing: int
    size: int
    index: tuple[int, ...]
    got: float
    expected: float
    micro_batch: int | None
    by_drift: bool = False
    rounding: bool = False
    noise: float = 0.0

    @property
    def called(self) -> str:
        """What a sentence calls it: a gradient by its weight, since Paddle 3 names no gradient."""
        return self.what if self.what.startswith("gradient of ") else self.name

    @property
    def share(self) -> float:
        """The largest error as a share of the tensor's large values: `max_abs` / `magnitude`.

        Beside a value that is 0 but for rounding any error is large, beside these none is by
        chance.
        """
        if not self.max_abs:
            return 0.0
        return self.max_abs / self.magnitude if self.magnitude else float("inf")

    def numbers(self) -> str:
        """Got and expected, in words."""
        if self.shape != self.expected_shape:
            return f"got shape {list(self.shape)}, expected {list(self.expected_shape)}"
        if self.dtype != self.expected_dtype and not self.by_drift:
            return f"got dtype {self.dtype}, expected {self.expected_dtype}"
        return (
            f"got {self.got:.7g}, expected {self.expected:.7g} at {list(self.index)}; "
            f"{self.differing} of {self.size} elements differ, max abs error {self.max_abs:.3g}, "
            f"{self.share:.3g} of the large values, drift {self.drift:.3g}"
        )


def compare(
    name: str,
    *,
    got: Sequence[Array],
    expected: Sequence[Array],
    rtol: float,
    atol: float,
    what: str = "",
    source: str = "",
    max_drift: float | None = None,
    floor: float = 0.0,
    nudged: Sequence[Sequence[Array]] = (),
) -> Comparison:
    """Compares one tensor over micro-batches.

    Integers and bools must be equal; NaN equals NaN, infinity equals infinity of the same sign.

    Args:
        got, expected: one array for each micro-batch, in their order.
        max_drift: judge by the norm of the error instead, which may be `max_drift` times the norm
            of `expected`, and `floor` besides; whole numbers and dtypes that differ, too.
        nudged: what the other side gives for nudged inputs, each run as `expected`: what is out of
            tolerance is judged by :mod:`~paddle_ipu.verification.rounding`. A whole number may
            differ where it does in one of these runs.
    """
    first, other = got[0], expected[0]
    by_drift = max_drift is not None
    a = np.stack([np.asarray(array, np.float64) for array in got])
    common: dict[str, Any] = {
        "name": name,
        "what": what,
        "source": source,
        "shape": first.shape,
        "expected_shape": other.shape,
        "dtype": first.dtype.name,
        "expected_dtype": other.dtype.name,
        "not_finite": int(a.size - np.isfinite(a).sum()),
        "by_drift": by_drift,
    }
    if first.shape != other.shape or not first.size:
        same = first.shape == other.shape and (by_drift or first.dtype == other.dtype)
        error_of_all = 0.0 if same else np.inf
        return Comparison(
            **common, ok=same, max_abs=error_of_all, drift=error_of_all,
            magnitude=0.0, differing=0 if same else int(other.size), size=int(other.size),
            index=(), got=np.nan, expected=np.nan, micro_batch=None if same else 0,
        )  # fmt: skip
    b = np.stack([np.asarray(array, np.float64) for array in expected])
    exact = not np.issubdtype(other.dtype, np.floating)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        error = np.where(equal, 0.0, np.abs(a - b))
    error = np.where(np.isfinite(error), error, np.inf)
    finite = np.where(np.isfinite(b), np.abs(b), 0.0)
    # Of each micro-batch by itself: the first one that is out of tolerance is wanted.
    axes = tuple(range(1, a.ndim))
    norms = np.sqrt((finite**2).sum(axis=axes))
    errors = np.sqrt((error**2).sum(axis=axes))
    whole = float(np.sqrt((norms**2).sum()))
    drift = float(np.sqrt((errors**2).sum()))
    if max_drift is None:
        allowed = np.zeros_like(finite) if exact else atol + rtol * finite
        differs = (error > allowed).reshape(len(a), -1).any(axis=1)
    else:
        typical = whole / np.sqrt(b.size)
        allowed = max_drift * np.maximum(finite, typical) + floor / np.sqrt(b.size)
        differs = errors > max_drift * norms + floor
    out = error > allowed
    worst = np.unravel_index(int(np.argmax(error - allowed)), error.shape)
    is_alike = by_drift or first.dtype == other.dtype
    noises = [
        rounding.noise(array, [run[number] for run in nudged])
        for number, array in enumerate(expected if nudged else ())
    ]
    excess = np.maximum(error - allowed, 0.0)
    only_rounds = bool(
        noises
        and differs.any()
        and is_alike
        and all(
            not excess[number, ...][noise == 0].any()
            if exact
            else rounding.is_rounding(excess[number, ...], noise)
            for number, noise in enumerate(noises)
        )
    )
    noise_of_all = float(np.sqrt(sum(float(np.square(array).sum()) for array in noises)))
    return Comparison(
        **common,
        ok=is_alike and (only_rounds or not differs.any()),
        rounding=only_rounds,
        noise=noise_of_all / whole if whole else 0.0,
        max_abs=float(error.max()),
        magnitude=float(finite.max()),
        drift=drift / whole if whole else (0.0 if drift == 0.0 else np.inf),
        differing=int(out.sum()),
        size=int(out.size),
        index=tuple(int(i) for i in worst[1:]),
        got=float(a[worst]),
        expected=float(b[worst]),
        micro_batch=int(np.argmax(differs)) if differs.any() else None,
    )
