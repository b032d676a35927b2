"""Pretraining samples: sentence pairs with masked words, under the names of NVIDIA's layout.

A pass draws its own pairs and its own masks, so that several passes are several different views of
the same articles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from examples.bert.vocabulary import SpecialIds

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
DEFAULT_SPECIAL = SpecialIds()
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
    seed: int | Sequence[int],
    special: SpecialIds = DEFAULT_SPECIAL,
    masked_share: float = MASKED_SHARE,
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
    if not 0 < masked_share < 1:
        raise ValueError(f"masked share: expected between 0 and 1, got {masked_share}")
    if sequence_length < 16:
        raise ValueError(f"sequence length: expected at least 16 tokens, got {sequence_length}")
    rng = np.random.default_rng(seed)
    pairs = [
        p for i in range(len(documents)) for p in _pairs(documents, i, sequence_length - 3, rng)
    ]
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]

    shape = (len(pairs), sequence_length)
    ids = np.full(shape, special.pad, np.int32)
    mask, segments = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, (first, second, _) in enumerate(pairs):
        tokens = [special.cls, *first, special.sep, *second, special.sep]
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
        segments[row, len(first) + 2 : len(tokens)] = 1
    chosen = np.rint(mask.sum(axis=1) * masked_share).astype(np.int64)
    chosen = np.clip(chosen, 1, max_predictions)
    words = special.words(vocabulary_size)
    positions, labels = _mask_words(ids, chosen, max_predictions, words, special, rng)
    foreign = np.array([is_foreign for _, _, is_foreign in pairs], np.int32)
    return dict(zip(KEYS, (ids, mask, segments, positions, labels, foreign), strict=True))


def _pairs(
    documents: Sequence[Document], number: int, limit: int, rng: np.random.Generator
) -> list[tuple[list[int], list[int], bool]]:
    """Segment pairs of one document; half take their second segment from another one."""
    document = documents[number]
    pairs = []
    position = 0
    while position < len(document):
        aim = int(rng.integers(2, limit + 1)) if rng.random() < SHORT_SHARE else limit
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
        _shorten(first, second, limit, rng)
        pairs.append((first, second, is_foreign))
    return pairs


def _shorten(first: list[int], second: list[int], limit: int, rng: np.random.Generator) -> None:
    """Cut the excess off the longer segment in place, front or back with equal chance."""
    excess = len(first) + len(second) - limit
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
    ids: NDArray[np.int32],
    chosen: NDArray[np.int64],
    max_predictions: int,
    words: NDArray[np.int32],
    special: SpecialIds,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Hide ``chosen`` words a sample in ``ids``: 80 % MASK, 10 % one of ``words``, 10 % kept."""
    rows = len(ids)
    is_word = (ids != special.pad) & (ids != special.cls) & (ids != special.sep)
    chosen = np.minimum(chosen, is_word.sum(axis=1))

    draws = np.where(is_word, rng.random(ids.shape), 2.0)
    order = np.argsort(draws, axis=1)[:, :max_predictions]
    is_chosen = np.arange(order.shape[1]) < chosen[:, None]
    positions = np.sort(
        np.where(is_chosen, order, ids.shape[1]), axis=1
    )  # in reading order, rest last
    row, slot = np.nonzero(positions < ids.shape[1])
    column = positions[row, slot]

    labels = np.zeros((rows, max_predictions), np.int32)
    labels[row, slot] = ids[row, column]
    draw = rng.random(len(row))
    random_words = words[rng.integers(0, len(words), len(row), dtype=np.int32)]
    ids[row, column] = np.where(
        draw < 0.8, special.mask, np.where(draw < 0.9, random_words, ids[row, column])
    )
    masked_positions = np.zeros((rows, max_predictions), np.int32)
    masked_positions[row, slot] = column
    return masked_positions, labels
