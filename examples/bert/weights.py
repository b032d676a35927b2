"""The weights a pretraining starts from, as NumPy arrays by parameter name.

Both devices are given the same arrays, so that their losses can be compared step by step.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from examples.bert.model import BertConfig

Weights = dict[str, NDArray[np.float32]]
Start = Literal["published", "neighbours"]

# Of the "neighbours" start, found by measurement at hidden 128.
WIDE_STD = 0.05  # 0.02 * sqrt(768 / 128): the activations' scale of BERT-Base at this width
ATTENTION_STD = (
    0.1  # queries and keys: the heads tell neighbouring positions apart from the first step
)
POSITION_SIZE = 0.1  # root mean square of the sinusoids, twice that of the word vectors
FASTEST, SPREAD = 1.5, 30.0  # radians a position, and how much slower the slowest sinusoid turns


def initial_weights(
    config: BertConfig, shapes: dict[str, list[int]], seed: int, start: Start
) -> Weights:
    """Weights for every parameter in ``shapes``.

    ``"published"``: matrices from a normal distribution cut at two standard deviations of 0.02,
    biases 0, layer-norm scales 1. ``"neighbours"``: the same with a standard deviation of 0.05,
    except that position vectors start as sinusoids and each head's queries as its keys turned by a
    fixed number of positions (one back, one ahead, two back, ...), so that heads begin by looking
    at the neighbouring words. All of it is trained. Without it the first thousands of steps go into
    finding the neighbours.
    """
    std = 0.02 if start == "published" else WIDE_STD
    weights: Weights = {}
    for number, name in enumerate(sorted(shapes)):
        rng = np.random.default_rng((seed, number))
        if name.endswith(".weight"):
            weights[name] = truncated_normal(shapes[name], std, rng)
        else:
            value = 1.0 if name.endswith(".scale") else 0.0
            weights[name] = np.full(shapes[name], value, np.float32)
    if start == "neighbours":
        _look_at_neighbours(config, weights)
    return weights


def truncated_normal(shape: list[int], std: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Normal values cut at two standard deviations by drawing again."""
    values = rng.standard_normal(shape)
    while (far := np.abs(values) > 2.0).any():
        values[far] = rng.standard_normal(int(far.sum()))
    return (values * std).astype(np.float32)


def _look_at_neighbours(config: BertConfig, weights: Weights) -> None:
    half = config.hidden // 2
    width = config.hidden // config.heads
    speed = FASTEST * SPREAD ** (-np.arange(half) / half)
    angle = np.arange(config.max_positions)[:, None] * speed
    sinusoids = np.concatenate([np.sin(angle), np.cos(angle)], axis=1) * (
        np.sqrt(2.0) * POSITION_SIZE
    )
    weights["embeddings.position.weight"] = sinusoids.astype(np.float32)
    for layer in range(config.layers):
        key = weights[f"encoder.{layer}.attention.key.weight"]
        key *= ATTENTION_STD / WIDE_STD
        query = np.empty_like(key)
        for head in range(config.heads):
            columns = slice(head * width, (head + 1) * width)
            shift = speed * (head // 2 + 1) * (1 if head % 2 else -1)
            sine, cosine = np.sin(shift)[:, None], np.cos(shift)[:, None]
            on_sine, on_cosine = key[:half, columns], key[half:, columns]
            # A query at position i equals the key at i + offset: sin and cos of a sum.
            query[:half, columns] = on_sine * cosine - on_cosine * sine
            query[half:, columns] = on_sine * sine + on_cosine * cosine
        weights[f"encoder.{layer}.attention.query.weight"] = query
