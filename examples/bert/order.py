"""In which order the samples of several files are read: a function of the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SampleOrder:
    """An endless order: each epoch visits every file once, shuffled, and shuffles its samples.

    ``counts`` are the files' numbers of samples.
    """

    counts: Sequence[int]
    seed: int

    @property
    def total(self) -> int:
        """Samples of an epoch."""
        return sum(self.counts)

    def file(self, visit: int) -> int:
        """Which file the ``visit``-th visit reads."""
        epoch, place = divmod(visit, len(self.counts))
        shuffled = np.random.default_rng((self.seed, epoch)).permutation(len(self.counts))
        return int(shuffled[place])

    def rows(self, visit: int) -> NDArray[np.int64]:
        """The rows of its file in the order in which the ``visit``-th visit gives them."""
        file = self.file(visit)
        # A seed ending in 0 is the same as one without it, so files are numbered from 1.
        rng = np.random.default_rng((self.seed, visit // len(self.counts), file + 1))
        return rng.permutation(self.counts[file])

    def locate(self, sample: int) -> tuple[int, int]:
        """The visit that gives the ``sample``-th sample of all, and its place in that visit."""
        epoch, rest = divmod(sample, self.total)
        visit = epoch * len(self.counts)
        while rest >= self.counts[self.file(visit)]:
            rest -= self.counts[self.file(visit)]
            visit += 1
        return visit, rest
