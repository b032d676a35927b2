"""The six feeds of the question-answering network, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.bert.squad import SquadFeatures

SQUAD_FEEDS = ("indices", "segments", "positions", "input_mask", "start_labels", "end_labels")
HIDDEN = -1000.0  # added to the attention scores of empty slots

Feeds = dict[str, NDArray[Any]]


def squad_feeds(features: SquadFeatures, rows: NDArray[np.int64]) -> Feeds:
    """The windows ``rows``: int32 ``[n, L]`` and ``[n]``, the mask float32 ``[n, 1, 1, L]``."""
    mask = (features.attention_mask[rows] - 1).astype(np.float32) * -HIDDEN
    return {
        "indices": features.input_ids[rows],
        "segments": features.token_type_ids[rows],
        "positions": features.position_ids[rows],
        "input_mask": mask[:, None, None, :],
        "start_labels": features.start_positions[rows],
        "end_labels": features.end_positions[rows],
    }


def training_batches(
    features: SquadFeatures, batch_size: int, seed: int, start: int = 0
) -> Iterator[Feeds]:
    """Endless whole batches, each epoch shuffled anew; an epoch's rest is left out.

    ``start`` is the number of batches to skip: where a training that is resumed goes on. Each epoch
    has ``len(features) // batch_size`` batches.
    """
    per_epoch = len(features) // batch_size
    if per_epoch == 0:
        raise ValueError(
            f"SQuAD features: expected at least one batch of {batch_size}, got {len(features)}"
        )
    epoch, skip = divmod(start, per_epoch)
    while True:
        order = np.random.default_rng((seed, epoch)).permutation(len(features))
        for number in range(skip, per_epoch):
            yield squad_feeds(features, order[number * batch_size : (number + 1) * batch_size])
        epoch, skip = epoch + 1, 0


def prediction_batches(features: SquadFeatures, batch_size: int) -> Iterator[tuple[Feeds, int]]:
    """Each window once, in order, and how many rows of the batch are used.

    The last batch is filled up with zeros, their mask with -1000.
    """
    for begin in range(0, len(features), batch_size):
        rows = np.arange(begin, min(begin + batch_size, len(features)))
        feeds = squad_feeds(features, rows)
        missing = batch_size - len(rows)
        if missing:
            for name, array in feeds.items():
                fill = HIDDEN if name == "input_mask" else 0
                rest = np.full((missing, *array.shape[1:]), fill, array.dtype)
                feeds[name] = np.concatenate([array, rest])
        yield feeds, len(rows)
