"""Why a training on the IPU may differ from Paddle's by more than rounding."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tests.differential.training.recipe import SCORES, Training
from tests.differential.training.verdict import LARGEST, Arrays

LOGARITHMS = ("cross entropy", "nll", "kl", "tokens")
"""Losses that take a logarithm of softmax."""
LOWEST = 64.0
TARGET = 16.0
"""The square of a long target's length: three normal numbers."""


def reason(training: Training, expected: Arrays, wrong: Collection[str]) -> str:
    """Why Paddle's results of a training are not to be held against those of the IPU, or "".

    Args:
        training: what was run.
        expected: Paddle's results.
        wrong: names of those that differ.
    """
    bounded = training.loss.name in LOGARITHMS and np.any(np.ptp(expected[SCORES], -1) > LOWEST)
    by_loss = training.scheduler is not None and training.scheduler.name == "ReduceOnPlateau"
    if bounded and (set(wrong) == {"loss"} or by_loss):
        return "Paddle's kernels take a logit for 64 below the largest where it is lower still"
    squares = np.sum(np.square(expected[SCORES], dtype=np.float64), -1)
    if (
        training.half
        and training.loss.name == "cosine"
        and np.any(squares * TARGET > LARGEST[True])
    ):
        return "the product of two squared lengths is beyond half's range, the cosine 0"
    return ""
