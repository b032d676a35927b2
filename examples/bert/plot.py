"""The loss plot of a pretraining."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WINDOW = 50  # steps of the moving average


def plot_losses(
    path: Path,
    mlm: Sequence[float],
    nsp: Sequence[float],
    unigram_entropy: float,
    held_out_mlm: float | None = None,
) -> None:
    """Write a PNG: MLM loss with the unigram entropy to beat, NSP loss with a coin's, by step.

    Raises:
        ValueError: the two series differ in length or are empty.
    """
    if not mlm or len(mlm) != len(nsp):
        raise ValueError(
            f"losses: expected two series of one length, not empty; got {len(mlm)} and {len(nsp)}"
        )
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its font cache
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    steps = np.arange(1, len(mlm) + 1)
    for axes, losses, colour in ((upper, mlm, "tab:blue"), (lower, nsp, "tab:green")):
        axes.plot(steps, losses, color=colour, alpha=0.25, linewidth=0.6)
        axes.plot(
            steps, moving_average(losses), color=colour, label=f"training, mean of {WINDOW} steps"
        )
    upper.axhline(
        unigram_entropy, color="tab:red", linestyle="--", label="entropy of the masked words"
    )
    if held_out_mlm is not None:
        upper.plot(
            steps[-1:], [held_out_mlm], "k*", markersize=10, label="held-out articles, at the end"
        )
    lower.axhline(np.log(2.0), color="tab:red", linestyle="--", label="a coin")
    upper.set_ylabel("MLM loss (nats)")
    lower.set_ylabel("NSP loss (nats)")
    lower.set_xlabel("step")
    for axes in (upper, lower):
        axes.legend(loc="upper right")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def moving_average(values: Sequence[float]) -> NDArray[np.float64]:
    """The mean of each value and up to ``WINDOW - 1`` before it."""
    sums = np.cumsum([0.0, *values])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - WINDOW, 0)
    averages: NDArray[np.float64] = (sums[end] - sums[start]) / (end - start)
    return averages
