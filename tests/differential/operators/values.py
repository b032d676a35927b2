"""Random numbers of every kind that a dtype has."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from tests.differential.operators.use import Array

_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-3, 1e3, -1e3, 88.0, -88.0, 104.0),
    *(np.nan, np.inf, -np.inf, 1e-40, -1e-40, 1.1754944e-38, 1.4e-45, 3.4028235e38, -3.4028235e38),
    *(16777216.0, 16777217.0, 2147483648.0, -2147483648.0, 1e10, -1e10, 1e-8, np.pi, -np.pi / 2),
)
_FINITE = tuple(number for number in _FLOATS if np.isfinite(number) and abs(number) < 1e5)

DTYPES = (
    *("float32", "int32", "int64", "bool", "float64", "int8", "uint8", "int16", "float16"),
    "bfloat16",
)
_WEIGHTS = np.asarray([40, 14, 14, 8, 8, 5, 5, 3, 3, 2], np.float64)


def dtype(random: np.random.Generator) -> str:
    """The name of a dtype, those that programs use most first."""
    return str(random.choice(DTYPES, p=_WEIGHTS / _WEIGHTS.sum()))


def numbers(
    random: np.random.Generator, shape: Sequence[int], dtype: str, like: Array | None = None
) -> Array:
    """An array of some kind of numbers.

    Args:
        shape: its sizes.
        dtype: its dtype; ``bfloat16`` is made as float32.
        like: numbers that are valid, whose range is taken at times.
    """
    if dtype == "bfloat16":
        wide = numbers(random, shape, "float32", like)
        with np.errstate(over="ignore"):
            return np.asarray(wide.astype(ml_dtypes.bfloat16).astype(np.float32))
    name = dtype
    if like is not None and like.size and like.dtype.name == name and random.random() < 0.5:
        if list(like.shape) == list(shape) and random.random() < 0.4:
            return like
        return _in_range(random, shape, like)
    if name == "bool":
        return np.asarray(random.random(shape) < random.choice([0.5, 0.5, 0.1, 0.9, 0.0, 1.0]))
    if name.startswith("complex"):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(name)
    if np.dtype(name).kind in "iu":
        return _integers(random, shape, name)
    return _floats(random, shape, name)


def _in_range(random: np.random.Generator, shape: Sequence[int], like: Array) -> Array:
    if like.dtype.kind == "b":
        return np.asarray(random.random(shape) < 0.5)
    if like.dtype.kind == "c":
        return np.resize(like, shape)
    if like.dtype.kind in "iu":
        low, high = int(like.min()), int(like.max())
        return random.integers(low, high, shape, dtype=like.dtype, endpoint=True)
    with np.errstate(all="ignore"):
        finite = like[np.isfinite(like)].astype(np.float64)
    if not finite.size:
        return np.resize(like, shape)
    return random.uniform(finite.min(), finite.max(), shape).astype(like.dtype)


def _integers(random: np.random.Generator, shape: Sequence[int], name: str) -> Array:
    limits = np.iinfo(name)
    kind = random.choice(["small", "index", "bits", "extremes"], p=[0.5, 0.25, 0.15, 0.1])
    if kind == "small":
        return random.integers(max(-4, limits.min), 5, shape).astype(name)
    if kind == "index":
        return random.integers(0, max(max(shape, default=1), 1), shape).astype(name)
    if kind == "bits":
        return random.integers(limits.min, limits.max, shape, dtype=name, endpoint=True)
    some = [limits.min, limits.max, limits.max - 1, 0, 1, limits.max // 2]
    return np.asarray(
        [some[at] for at in random.integers(0, len(some), int(np.prod(shape)))], name
    ).reshape(shape)


def _floats(random: np.random.Generator, shape: Sequence[int], name: str) -> Array:
    kind = random.choice(
        ["normal", "ties", "positive", "special", "finite", "wide", "constant"],
        p=[0.3, 0.2, 0.12, 0.12, 0.12, 0.08, 0.06],
    )
    if kind == "normal":
        made = random.standard_normal(shape)
    elif kind == "ties":
        made = random.integers(-2, 3, shape) / random.choice([1.0, 2.0])
    elif kind == "positive":
        made = random.uniform(0.01, 1.0, shape)
    elif kind == "special":
        few = random.random(shape) < 0.3
        made = np.where(few, random.choice(_FLOATS, shape), random.standard_normal(shape))
    elif kind == "finite":
        made = random.choice(_FINITE, shape)
    elif kind == "wide":
        made = random.standard_normal(shape) * 10.0 ** random.integers(-6, 7, shape)
    else:
        made = np.full(shape, random.choice(_FINITE))
    with np.errstate(over="ignore"):
        # The IPU computes float64 in float32: numbers are those that both have.
        return np.asarray(made, np.float64).astype(np.float32).astype(name)
