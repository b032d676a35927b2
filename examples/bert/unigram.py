"""What word frequencies alone score: the bar a pretrained network has to pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class UnigramReference:
    """What a network scores that knows nothing but how common each word is, in nats.

    ``entropy`` is that of the training labels' frequencies; ``held_out`` the cross-entropy of the
    held-out labels under those frequencies, each count raised by one so that unseen words cost
    finite loss.
    """

    entropy: float
    held_out: float


def unigram_reference(
    training: Sequence[NDArray[np.int32]], held_out: NDArray[np.int32], vocabulary_size: int
) -> UnigramReference:
    """Entropy of the masked words' frequencies over all training labels, 0 (no label) left out."""
    counts = np.zeros(vocabulary_size, np.int64)
    for labels in training:
        counts += np.bincount(labels[labels != 0], minlength=vocabulary_size)
    share = counts[counts > 0] / counts.sum()
    smoothed = (counts + 1) / (counts.sum() + vocabulary_size)
    words = held_out[held_out != 0]
    return UnigramReference(
        float(-(share * np.log(share)).sum()), float(-np.log(smoothed[words]).mean())
    )
