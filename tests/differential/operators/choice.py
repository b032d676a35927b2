"""A random choice that stays the same while other things become, or cease to be, choosable.

A case of a seed and a number is of that use to the case table, however many rows are added to it,
except where it is one of the new rows that is chosen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFTS = (np.uint64(32), np.uint64(29))


class Choice(Generic[T]):
    """Things of which one is drawn: that with the highest score, of its name and a random number.

    Args:
        things: what is drawn.
        names: a text for each, no two the same; the scores are made of them.
    """

    def __init__(self, things: Iterable[T], names: Iterable[str]) -> None:
        self._things = list(things)
        digests = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in names)
        self._marks = np.frombuffer(digests, "<u8")

    def draw(self, random: np.random.Generator) -> T:
        """One of the things, each as probable."""
        scores = self._marks ^ random.integers(2**64, dtype=np.uint64)
        for shift in _SHIFTS:
            scores = (scores ^ (scores >> shift)) * _PRIME
        return self._things[int(np.argmax(scores))]

    def __len__(self) -> int:
        return len(self._things)

    def __getitem__(self, at: int) -> T:
        return self._things[at]
