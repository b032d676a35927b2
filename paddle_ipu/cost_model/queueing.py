"""How long requests wait that come by chance: percentiles of the latency of an inference program.

Requests of one row come independently of one another, at a mean rate (Poisson). A run takes as long
whether it is full or not, and the next one begins as soon as it ends, with those that wait, as many
as have room (``paddle_ipu.serving`` with ``timeout_ms=0``); where nobody waits, with the next that
comes. With one row a run this is the queue M/D/1.

The rows L that are left over at the start of a run are a Markov chain, L' = max(0, L + A - B) with
A that come during the run and B that have room. It is solved for the distribution that it keeps; a
request that comes t after the start waits for the rest of the run and for those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PERCENTILES = (0.5, 0.9, 0.99)
STEADY = 0.99
"""Share of the largest rate up to which waits settle in a time that anybody would measure."""
_MOMENTS = 200
"""Moments of a run at which requests come."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Serving:
    """Requests at a rate, each of one row.

    Attributes:
        requests: a second.
        largest: requests a second at which all runs are full; from there on the queue only grows.
        rows: that a run has room for.
        busy: share of the time in which a run is under way; 1 where the queue only grows.
        percentiles: share of the requests -> seconds in which they have their answer; empty where
            the rate is more than :data:`STEADY` of the largest.
    """

    requests: float
    largest: float
    rows: int
    busy: float
    percentiles: Mapping[float, float]


def serving(requests: float, seconds: float, rows: int) -> Serving:
    """What requests at a rate wait.

    Args:
        requests: a second, above 0.
        seconds: of a run.
        rows: that a run has room for.
    """
    largest = rows / seconds
    load = requests / largest
    if load > STEADY:
        return Serving(requests, largest, rows, 1.0, {})
    come = requests * seconds
    left = _left_over(come, rows, load)
    nobody = left[0] * np.exp(-come)
    busy = float(come / (come + nobody))
    times, weights = _waits(left, come, rows)
    # Who finds nothing under way begins a run.
    times, weights = np.append(times, 1.0), np.append(weights * busy, 1.0 - busy)
    order = np.argsort(times)
    shares = np.cumsum(weights[order])
    places = np.searchsorted(shares / shares[-1], PERCENTILES)
    found = times[order][places] * seconds
    return Serving(
        requests, largest, rows, busy, dict(zip(PERCENTILES, map(float, found), strict=True))
    )


def _left_over(come: float, rows: int, load: float) -> Floats:
    """How likely it is that so many wait when a run has begun; `come` during a run on average."""
    # Each row more is about e^(-2 (1 - load) / load) times as likely: beyond is e^-24 of it.
    size = int(12 / (1 - load)) + 60
    chances = _poisson(come, rows + size)
    before, after = np.arange(size)[:, None], np.arange(size)[None, :]
    needed = after - before + rows
    change = np.where(needed >= 0, chances[np.clip(needed, 0, None)], 0.0)
    until = np.cumsum(chances)
    none = rows - np.arange(size)
    change[:, 0] = np.where(none >= 0, until[np.clip(none, 0, None)], 0.0)
    change[:, -1] += 1.0 - change.sum(axis=1)
    # The distribution is kept, and adds up to 1.
    equations = change.T - np.eye(size)
    equations[-1] = 1.0
    kept = np.linalg.solve(equations, np.eye(size)[-1])
    return np.clip(kept, 0.0, None)


def _waits(left: Floats, come: float, rows: int) -> tuple[Floats, Floats]:
    """Times in runs until the answer, of requests that come during a run, and their chances."""
    moments = (np.arange(_MOMENTS) + 0.5) / _MOMENTS
    most = int(come + 12 * np.sqrt(come)) + 40
    runs = np.arange(1, (len(left) + most) // rows + 2)
    needed = np.clip(runs[:, None] * rows - np.arange(len(left))[None, :], 0, most + 1)
    times, weights = [], []
    for moment in moments:
        until = np.append(0.0, np.cumsum(_poisson(come * moment, most)))
        # That fewer are before this one than the runs have room for, all together.
        within = until[needed] @ left
        times.append(1.0 - moment + runs)
        weights.append(np.diff(within, prepend=0.0) / _MOMENTS)
    return np.concatenate(times), np.concatenate(weights)


def _poisson(mean: float, most: int) -> Floats:
    """Chances of 0 to `most` events."""
    counts = np.arange(most + 1)
    logarithms = np.append(0.0, np.cumsum(np.log(counts[1:])))
    chances: Floats = np.exp(counts * np.log(mean) - mean - logarithms)
    return chances
