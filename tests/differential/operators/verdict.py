"""Whether two answers to a case agree, and if not, what a finding says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.differential.operators.ipu_model import Outcome
from tests.differential.operators.ties import same_but_for_ties
from tests.differential.operators.use import Array
from tests.differential.operators.worker import Answer
from tests.operators.compare import assert_same

_FACTORS = 1e4
"""Larger operands do not count where a result is an operand times a denormal."""

NOT_FINITE_IN_PADDLE_ALONE = "all of it where Paddle's alone is not finite"
"""A line of a finding whose numbers agree wherever Paddle has any, and that has more of them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case.

    Attributes:
        outcome: one of those that :class:`~tests.differential.tally.Tally` counts.
        title: of a finding, "" for none; the same for cases that may have one cause.
        detail: what a finding says beside the case.
        fetch: which result differs.
    """

    outcome: str
    title: str = ""
    detail: str = ""
    fetch: str = ""


def compare(answer: Answer, outcome: Outcome, random: frozenset[str]) -> Verdict:
    """Compares Paddle's answer with ours.

    Args:
        random: operators whose results are random; of them shape and dtype are compared.
    """
    case = answer.case
    assert case is not None
    if outcome.not_supported:
        return Verdict("not supported")
    if outcome.error:
        return Verdict("fails", f"{case.subject}: {_kind(outcome.error)}", outcome.error[:1500])
    for what, expected in answer.results.items():
        got = outcome.results[what]
        same_form = (got.shape, got.dtype) == (expected.shape, expected.dtype)
        if same_form and any(use.op in random for use in case.steps):
            continue
        try:
            with np.errstate(all="ignore"):
                assert_same(got=got, expected=expected, what=what)
        except AssertionError as error:
            if same_form and same_but_for_ties(case, what, got, expected):
                continue
            detail = f"{error}\ngot {_short(got)}\nexpected {_short(expected)}"
            if same_form and _agrees_but_where_paddle_is_not_finite(got, expected):
                detail += f"\n{NOT_FINITE_IN_PADDLE_ALONE}"
            title = f"{case.subject}: {_difference(got, expected)}"
            if what.startswith("gradient"):
                title += " of a gradient"
            return Verdict("differs", title, detail, what)
    return Verdict("agrees")


def nearest(answers: Sequence[Answer], outcome: Outcome) -> Answer:
    """The first answer, with each number that of the answer where it is nearest to ours."""
    first, *others = answers
    results = {
        what: _nearest(outcome.results[what], expected, [o.results.get(what) for o in others])
        for what, expected in first.results.items()
    }
    return replace(first, results=results)


def narrowed(answer: Answer) -> Answer:
    """The answer, with numbers of 64 bits as float32 has them: infinite beyond its range."""
    with np.errstate(all="ignore"):
        results = {
            what: array.astype(np.float32).astype(np.float64)
            if array.dtype == np.float64
            else array
            for what, array in answer.results.items()
        }
    return replace(answer, results=results)


def _nearest(got: Array, expected: Array, others: Sequence[Array | None]) -> Array:
    """Of each element the one that is nearest to `got`."""
    for other in others:
        if other is None or not (got.shape == expected.shape == other.shape):
            continue
        with np.errstate(all="ignore"):
            is_nearer = _distances(got, other) < _distances(got, expected)
            expected = np.where(is_nearer, other.astype(expected.dtype), expected)
    return expected


def _distances(left: Array, right: Array) -> Array:
    """Of each element: 0 where both are the same, infinity where one is NaN."""
    left, right = left.astype(np.complex128), right.astype(np.complex128)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    distance = np.abs(left - right)
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def flushed(answer: Answer, outcome: Outcome) -> tuple[Answer, Outcome]:
    """Both with zeros for results that are too small to be normal, or made of such numbers.

    They may be twice such a number, or an operand times one.
    """
    assert answer.case is not None
    operands = [
        np.abs(tensor.array.astype(np.float64))
        for use in answer.case.steps
        for _, _, tensor in use.tensors()
        if tensor.array.dtype.kind == "f"
    ]
    factor = max((float(np.max(a, where=a < _FACTORS, initial=2.0)) for a in operands), default=2.0)
    limit = factor * np.finfo(np.float32).tiny

    def normal(results: Mapping[str, Array]) -> dict[str, Array]:
        return {
            what: np.where(np.abs(array) < limit, np.zeros_like(array), array)
            if array.dtype.kind == "f"
            else array
            for what, array in results.items()
        }

    return (
        replace(answer, results=normal(answer.results)),
        replace(outcome, results=normal(outcome.results)),
    )


def is_rounding(
    what: str, ours: Mapping[str, Array], paddles: Mapping[str, Array], others: Mapping[str, Array]
) -> bool:
    """Whether a result is about as far from Paddle's as Paddle's in double precision is.

    Args:
        what: the name of the result.
        ours: results of the IPU Model.
        paddles: Paddle's.
        others: Paddle's in float64, or of inputs that differ in the last bit.
    """
    if what not in others or others[what].shape != paddles[what].shape:
        return False
    got, expected, other = (np.asarray(array[what]) for array in (ours, paddles, others))
    if got.shape != expected.shape:
        return False
    if is_float(expected):
        judged = (
            np.isfinite(expected) | (np.isnan(expected) & np.isnan(other)) | (expected == other)
        )
        # Where only Paddle's float32 is no number, it is Paddle's that went beyond the range:
        # ours did so too, to what it came to in its order, or is the number that the other is.
        with np.errstate(all="ignore"):
            in_range = other[~judged].astype(expected.dtype)
        beyond = ~np.isfinite(got[~judged]) & np.isfinite(other[~judged])
        fallback = np.where(beyond, got[~judged], expected[~judged])
        if not _are_either(got[~judged], fallback, in_range):
            return False
        got, expected, other = got[judged], expected[judged], other[judged]
    if got.dtype != expected.dtype or not is_float(got):
        return got.dtype == expected.dtype and not np.array_equal(other, expected)
    spread, distance = _distance(other, expected), _distance(got, expected)
    return bool(np.isfinite(distance) and distance <= 4 * spread)


def is_all_rounding(what: str, paddles: Mapping[str, Array], wides: Mapping[str, Array]) -> bool:
    """Whether little of Paddle's result is left in double precision, or it is 0: terms cancel."""
    if what not in wides or wides[what].shape != paddles[what].shape:
        return False
    size = _distance(paddles[what], np.zeros_like(paddles[what]))
    return bool(_distance(wides[what], paddles[what]) >= 0.5 * size)


def is_float(array: Array) -> bool:
    """Whether an array's numbers may be NaN."""
    return array.dtype.kind in "fc" or array.dtype.name == "bfloat16"


def _are_either(got: Array, one: Array, other: Array) -> bool:
    got, one, other = (array.astype(np.float64) for array in (got, one, other))
    near_one, near_other = (
        np.isclose(got, either, rtol=1e-3, atol=0, equal_nan=True) for either in (one, other)
    )
    return bool(np.all(near_one | near_other))


def _distance(left: Array, right: Array) -> float:
    left, right = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        return float(np.linalg.norm(np.where(same, 0.0, left - right)))


def same_bits(left: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    """Whether two runs gave the same."""
    return left.keys() == right.keys() and all(
        left[name].shape == right[name].shape
        and left[name].dtype == right[name].dtype
        and np.array_equal(left[name], right[name], equal_nan=is_float(left[name]))
        for name in left
    )


def _difference(got: Array, expected: Array) -> str:
    if got.shape != expected.shape:
        return "shape"
    if got.dtype != expected.dtype:
        return f"dtype {got.dtype}, not {expected.dtype}"
    if is_float(expected):
        if _differ_beyond_the_range(got, expected):
            return "NaN or infinity"
        if not np.array_equal(np.isnan(got), np.isnan(expected)):
            return "NaN"
        if not np.array_equal(np.isinf(got), np.isinf(expected)):
            return "infinity"
    return f"numbers of {expected.dtype}"


def _differ_beyond_the_range(got: Array, expected: Array) -> bool:
    """Whether one is NaN where the other is infinite, and all else agrees.

    A sum beyond the range is one or the other by the order of its terms.
    """
    beyond = (np.isnan(got) & np.isinf(expected)) | (np.isinf(got) & np.isnan(expected))
    if not beyond.any():
        return False
    try:
        assert_same(got=np.where(beyond, expected, got), expected=expected)
    except AssertionError:
        return False
    return True


def not_finite_alone(got: Array, expected: Array) -> Array:
    """Where Paddle's result is NaN or infinite, and ours is a number, or infinite for NaN."""
    finite, is_nan = np.isfinite(got), np.isnan(got)
    return np.asarray((np.isnan(expected) & ~is_nan) | (np.isinf(expected) & finite))


def _agrees_but_where_paddle_is_not_finite(got: Array, expected: Array) -> bool:
    if not is_float(expected):
        return False
    try:
        with np.errstate(all="ignore"):
            alone = not_finite_alone(got, expected)
            assert_same(got=np.where(alone, expected, got), expected=expected)
    except AssertionError:
        return False
    return True


def _kind(error: str) -> str:
    """The error without what differs from case to case and from machine to machine."""
    line = re.sub(r" at /\S+( line \d+)?", "", error.strip().splitlines()[0])[:120]
    return re.sub(r"\s+", " ", re.sub(r"[\[(`'].*?[\])`']|\d+", "…", line))[:80]


def _short(array: Array) -> str:
    text = np.array2string(array, separator=", ", threshold=40, max_line_width=10**6)
    return f"{array.dtype}{list(array.shape)} " + " ".join(text.split())
