"""What a batching runner has done: counts, and how long its answers took."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BOUNDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Seconds: upper bounds of the histogram of latencies; one bucket more is for what took longer."""

_REMEMBERED = 8192
"""Answers that the percentiles are of."""

_AT_ONCE = 1024
"""Answers that are sorted into the buckets together."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """A runner's counts at one moment.

    Attributes:
        requests: accepted so far.
        answered: of them, those that got their outputs.
        failed: those that got an error of the model.
        timed_out: those that were not begun within their time.
        cancelled: those that nobody waited for any more when their turn came, or that were
            abandoned by a shutdown.
        refused: requests that were not accepted, because too many rows waited.
        batches: calls of the model.
        rows: rows of requests in these calls.
        padding: rows that filled them up, or were computed once more after an error.
        waiting: rows that wait now.
        latency: seconds from acceptance to answer below which 50, 90 and 99 % of the last 8192
            answers stayed; zeros before the first.
        latency_sum: seconds of all answers together.
        latency_counts: answers in each bucket of `BOUNDS`, and above them.
    """

    requests: int
    answered: int
    failed: int
    timed_out: int
    cancelled: int
    refused: int
    batches: int
    rows: int
    padding: int
    waiting: int
    latency: tuple[float, float, float]
    latency_sum: float
    latency_counts: tuple[int, ...]

    @property
    def fill(self) -> float:
        """Share of the rows computed that were a request's; 0 before the first batch."""
        computed = self.rows + self.padding
        return self.rows / computed if computed else 0.0

    def __str__(self) -> str:
        p50, p90, p99 = (1000 * seconds for seconds in self.latency)
        return (
            f"{self.requests} requests: {self.answered} answered, {self.failed} failed, "
            f"{self.timed_out} timed out, {self.cancelled} cancelled; {self.refused} refused\n"
            f"{self.batches} batches, {100 * self.fill:.1f} % full; {self.waiting} rows waiting\n"
            f"latency p50 {p50:.2f} ms, p90 {p90:.2f} ms, p99 {p99:.2f} ms"
        )


class Recorder:
    """Counts; its owner's lock guards it."""

    def __init__(self) -> None:
        self.requests = self.answered = self.failed = self.timed_out = 0
        self.cancelled = self.refused = self.batches = self.rows = self.padding = 0
        self._last: deque[float] = deque(maxlen=_REMEMBERED)
        self._unsorted: list[float] = []
        self._sum = 0.0
        self._counts = np.zeros(len(BOUNDS) + 1, int)

    def answer(self, latencies: Sequence[float]) -> None:
        """Counts answers that took so many seconds."""
        self.answered += len(latencies)
        self._unsorted += latencies
        if len(self._unsorted) >= _AT_ONCE:
            self._sort()

    def _sort(self) -> None:
        self._last += self._unsorted
        self._sum += sum(self._unsorted)
        buckets = np.searchsorted(BOUNDS, self._unsorted)
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self._unsorted.clear()

    def snapshot(self, waiting: int) -> Statistics:
        """The counts as they are now."""
        self._sort()
        last = np.array(self._last or [0.0])
        p50, p90, p99 = (float(value) for value in np.percentile(last, (50, 90, 99)))
        return Statistics(
            self.requests, self.answered, self.failed, self.timed_out, self.cancelled,
            self.refused, self.batches, self.rows, self.padding, waiting,
            (p50, p90, p99), self._sum, tuple(self._counts.tolist()),
        )  # fmt: skip
