"""Pretraining samples: sentence pairs with masked words, in hdf5 files as NVIDIA lays them out.

Each file holds one pass over the text. A pass draws its own pairs and its own masks, so that
several files are several different views of the same articles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.bert.vocabulary import CLS, FIRST_WORD, MASK, PAD, SEP

Document = Sequence[Sequence[int]]  # token ids, sentence by sentence
Arrays = dict[str, NDArray[np.int32]]

KEYS = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "next_sentence_labels",
)
MASKED_SHARE = 0.15  # of a sample's tokens, CLS and SEP counted
SHORT_SHARE = 0.1  # of samples that aim at a random shorter length, as in BERT's own recipe


def split_articles(count: int, held_out_share: float, seed: int) -> tuple[list[int], list[int]]:
    """Numbers of the training and of the held-out articles: no sentence is in both."""
    if count < 4:
        raise ValueError(f"articles: expected at least 4 to split, got {count}")
    order = np.random.default_rng(seed).permutation(count)
    held_out = min(count - 2, max(2, round(count * held_out_share)))
    return sorted(order[held_out:].tolist()), sorted(order[:held_out].tolist())


def make_pass(
    documents: Sequence[Document],
    sequence_length: int,
    max_predictions: int,
    vocabulary_size: int,
    seed: int,
) -> Arrays:
    """One pass over ``documents``: int32 arrays under NVIDIA's keys, N samples, shuffled.

    ``input_ids``, ``input_mask``, ``segment_ids`` are ``[N, sequence_length]``;
    ``masked_lm_positions`` and ``masked_lm_ids`` ``[N, max_predictions]``, filled with 0 after the
    last masked word; ``next_sentence_labels`` ``[N]``, 1 where the second segment comes from
    another article.
    """
    if len(documents) < 2:
        raise ValueError(
            f"documents: expected at least 2, to draw foreign segments from, got {len(documents)}"
        )
    if sequence_length < 16:
        raise ValueError(f"sequence length: expected at least 16 tokens, got {sequence_length}")
    rng = np.random.default_rng(seed)
    pairs = [
        p for i in range(len(documents)) for p in _pairs(documents, i, sequence_length - 3, rng)
    ]
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]

    shape = (len(pairs), sequence_length)
    ids = np.full(shape, PAD, np.int32)
    mask, segments = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, (first, second, _) in enumerate(pairs):
        tokens = [CLS, *first, SEP, *second, SEP]
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
        segments[row, len(first) + 2 : len(tokens)] = 1
    positions, labels = _mask_words(ids, max_predictions, vocabulary_size, rng)
    foreign = np.array([is_foreign for _, _, is_foreign in pairs], np.int32)
    return dict(zip(KEYS, (ids, mask, segments, positions, labels, foreign), strict=True))


def write_hdf5(path: Path, arrays: Arrays) -> None:
    """Write one pass; the file appears whole or not at all."""
    import h5py

    partial = path.with_suffix(".part")
    with h5py.File(partial, "w") as file:
        for key in KEYS:
            file.create_dataset(key, data=arrays[key], compression="gzip", compression_opts=1)
    partial.replace(path)


def read_hdf5(path: Path) -> Arrays:
    """Read a file of :func:`write_hdf5` or of NVIDIA's own scripts as int32 arrays.

    Raises:
        ValueError: a key of the layout is missing.
    """
    import h5py

    with h5py.File(path, "r") as file:
        missing = [key for key in KEYS if key not in file]
        if missing:
            raise ValueError(
                f"{path}: expected the keys of NVIDIA's BERT layout, missing: {', '.join(missing)}"
            )
        return {key: np.asarray(file[key], np.int32) for key in KEYS}


def count_samples(path: Path) -> int:
    """How many samples an hdf5 file holds, without reading them."""
    import h5py

    with h5py.File(path, "r") as file:
        return len(file["next_sentence_labels"])


def _pairs(
    documents: Sequence[Document], number: int, room: int, rng: np.random.Generator
) -> list[tuple[list[int], list[int], bool]]:
    """Segment pairs of one document; half take their second segment from another one."""
    document = documents[number]
    pairs = []
    position = 0
    while position < len(document):
        aim = int(rng.integers(2, room + 1)) if rng.random() < SHORT_SHARE else room
        end, length = position, 0
        while end < len(document) and length < aim:
            length += len(document[end])
            end += 1
        chunk = document[position:end]
        cut = int(rng.integers(1, len(chunk))) if len(chunk) > 1 else 1
        first = [token for sentence in chunk[:cut] for token in sentence]
        is_foreign = len(chunk) == 1 or rng.random() < 0.5
        if is_foreign:
            other = (number + int(rng.integers(1, len(documents)))) % len(documents)
            start = int(rng.integers(0, len(documents[other])))
            second: list[int] = []
            for sentence in documents[other][start:]:
                second += sentence
                if len(first) + len(second) >= aim:
                    break
            position += cut  # the sentences left over start the next pair
        else:
            second = [token for sentence in chunk[cut:] for token in sentence]
            position = end
        _shorten(first, second, room, rng)
        pairs.append((first, second, is_foreign))
    return pairs


def _shorten(first: list[int], second: list[int], room: int, rng: np.random.Generator) -> None:
    """Cut the excess off the longer segment in place, front or back with equal chance."""
    excess = len(first) + len(second) - room
    if excess <= 0:
        return
    longer, shorter = (first, second) if len(first) > len(second) else (second, first)
    from_longer = min(excess, len(longer) - len(shorter))
    cuts = [
        (longer, from_longer + (excess - from_longer + 1) // 2),
        (shorter, (excess - from_longer) // 2),
    ]
    for segment, count in cuts:
        front = int(rng.binomial(count, 0.5)) if count else 0
        del segment[:front]
        del segment[len(segment) - (count - front) :]


def _mask_words(
    ids: NDArray[np.int32], max_predictions: int, vocabulary_size: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Choose words and hide them in ``ids``: 80 % MASK, 10 % a random word, 10 % kept."""
    rows = len(ids)
    is_word = (ids != PAD) & (ids != CLS) & (ids != SEP)
    length = (ids != PAD).sum(axis=1)
    chosen = np.clip(np.rint(length * MASKED_SHARE).astype(np.int64), 1, max_predictions)
    chosen = np.minimum(chosen, is_word.sum(axis=1))

    lottery = np.where(is_word, rng.random(ids.shape), 2.0)
    order = np.argsort(lottery, axis=1)[:, :max_predictions]
    is_chosen = np.arange(order.shape[1]) < chosen[:, None]
    positions = np.sort(
        np.where(is_chosen, order, ids.shape[1]), axis=1
    )  # in reading order, rest last
    row, slot = np.nonzero(positions < ids.shape[1])
    column = positions[row, slot]

    labels = np.zeros((rows, max_predictions), np.int32)
    labels[row, slot] = ids[row, column]
    lot = rng.random(len(row))
    random_words = rng.integers(FIRST_WORD, vocabulary_size, len(row), dtype=np.int32)
    ids[row, column] = np.where(
        lot < 0.8, MASK, np.where(lot < 0.9, random_words, ids[row, column])
    )
    kept = np.zeros((rows, max_predictions), np.int32)
    kept[row, slot] = column
    return kept, labels
