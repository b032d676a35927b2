"""The seven int32 feeds of a pretraining step, made of samples in NVIDIA's layout."""

from __future__ import annotations

import numpy as np

from examples.bert.samples import Arrays
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
