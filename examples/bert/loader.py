"""Batches for the network: hdf5 files in, the seven int32 feeds of a step out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.bert.samples import Arrays, count_samples, read_hdf5
from examples.bert.vocabulary import MASK

FEEDS = (
    "indices",
    "segments",
    "positions",
    "mask_tokens_mask_idx",
    "sequence_mask_idx",
    "masked_lm_ids",
    "next_sentence_labels",
)


def move_masked_to_front(arrays: Arrays, max_predictions: int, last_position: int) -> Arrays:
    """The feeds of all samples: masked words in slots 0 to max_predictions - 1, the others behind.

    The head then reads a fixed slice instead of gathering. CLS lands in slot ``max_predictions``;
    each slot keeps its true position, empty ones hold ``last_position`` and are hidden by the
    attention mask. What does not fit behind the masked words is cut off. ``mask_tokens_mask_idx``
    ``[N, 1]`` counts the masked words, ``sequence_mask_idx`` ``[N, 1]`` is the end of the used
    slots, ``masked_lm_ids`` holds 0 where there is no word to predict.
    """
    ids = arrays["input_ids"]
    samples, length = ids.shape
    labels = arrays["masked_lm_ids"]
    if labels.shape[1] != max_predictions:
        raise ValueError(
            f"masked_lm_ids: expected {max_predictions} slots a sample, got {labels.shape[1]}; "
            "prepare the data with the same max_predictions"
        )
    masked_count = (labels != 0).sum(axis=1)
    is_masked = np.zeros((samples, length), bool)
    row, slot = np.nonzero(labels)
    is_masked[row, arrays["masked_lm_positions"][row, slot]] = True
    is_other = (arrays["input_mask"] == 1) & ~is_masked
    target = np.where(
        is_masked,
        np.cumsum(is_masked, axis=1) - 1,
        max_predictions + np.cumsum(is_other, axis=1) - 1,
    )
    row, column = np.nonzero((is_masked | is_other) & (target < length))
    place = (row, target[row, column])

    indices, segments = np.zeros_like(ids), np.zeros_like(ids)
    positions = np.full_like(ids, last_position)
    indices[place] = ids[row, column]
    segments[place] = arrays["segment_ids"][row, column]
    positions[place] = column
    end = np.minimum(is_other.sum(axis=1) + max_predictions, length)
    return {
        "indices": indices,
        "segments": segments,
        "positions": positions,
        "mask_tokens_mask_idx": masked_count.astype(np.int32)[:, None],
        "sequence_mask_idx": end.astype(np.int32)[:, None],
        "masked_lm_ids": labels,
        "next_sentence_labels": arrays["next_sentence_labels"].reshape(samples),
    }


class PretrainingData:
    """All files with "training" in their names, endlessly, each shuffled anew every time."""

    def __init__(
        self,
        files: Sequence[Path],
        max_predictions: int,
        last_position: int,
        batch_size: int,
        seed: int,
    ) -> None:
        self.files = sorted(path for path in files if "training" in path.name)
        if not self.files:
            raise ValueError(
                'input files: expected at least one with "training" in its name, got none'
            )
        self._layout = (max_predictions, last_position)
        self._batch_size = batch_size
        self._seed = seed

    @property
    def samples(self) -> int:
        """Samples in all files together."""
        return sum(count_samples(path) for path in self.files)

    def __iter__(self) -> Iterator[Arrays]:
        """Batches of ``batch_size`` samples; a file's rest is carried into the next file."""
        carried: Arrays | None = None
        visit = 0
        while True:
            rng = np.random.default_rng((self._seed, visit))
            feeds = move_masked_to_front(
                read_hdf5(self.files[visit % len(self.files)]), *self._layout
            )
            order = rng.permutation(len(feeds["indices"]))
            feeds = {name: array[order] for name, array in feeds.items()}
            if carried is not None:
                feeds = {name: np.concatenate([carried[name], feeds[name]]) for name in FEEDS}
            whole = len(feeds["indices"]) // self._batch_size * self._batch_size
            for start in range(0, whole, self._batch_size):
                rows = slice(start, start + self._batch_size)
                yield {name: feeds[name][rows] for name in FEEDS}
            carried = {name: array[whole:] for name, array in feeds.items()}
            visit += 1


def fixed_batches(feeds: Arrays, batch_size: int) -> list[Arrays]:
    """The samples in order, in whole batches; what does not fill one is left out."""
    count = len(feeds["indices"]) // batch_size
    return [
        {n: a[i * batch_size : (i + 1) * batch_size] for n, a in feeds.items()}
        for i in range(count)
    ]


def hide_every_masked_word(feeds: Arrays) -> Arrays:
    """The same feeds with MASK in every slot to predict, also where a word was kept or replaced.

    A network can read a kept word off its slot; what it predicts here it must know from the
    context.
    """
    indices = feeds["indices"].copy()
    width = feeds["masked_lm_ids"].shape[1]
    indices[:, :width] = np.where(feeds["masked_lm_ids"] != 0, MASK, indices[:, :width])
    return {**feeds, "indices": indices}


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
