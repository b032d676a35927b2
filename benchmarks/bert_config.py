"""BERT's shape, its initial weights and one batch: what every engine of the benchmark shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LEARNING_RATE = 1e-4
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
NORM_EPSILON = 1e-12
MASKED_OUT = -10000.0


@dataclass(frozen=True, slots=True)
class Config:
    """The model and its input; the defaults are BERT-Base in the first phase of pretraining.

    Attributes:
        batch: sequences in a batch.
        layers: encoder layers.
        hidden: width; heads are 64 wide, the feed-forward layer is four times as wide.
        sequence: tokens in a sequence.
        predictions: masked positions in a sequence.
        vocabulary: size of the word embedding.
        positions: size of the position embedding.
    """

    batch: int = 4
    layers: int = 12
    hidden: int = 768
    sequence: int = 128
    predictions: int = 20
    vocabulary: int = 30522
    positions: int = 512

    @property
    def heads(self) -> int:
        """Attention heads."""
        return self.hidden // 64

    @property
    def feed_forward(self) -> int:
        """Width of the feed-forward layer."""
        return 4 * self.hidden


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter; matrices are [in, out]."""
    hidden, wide = config.hidden, config.feed_forward

    def linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (rows, columns), f"{name}.bias": (columns,)}

    def norm(name: str) -> dict[str, tuple[int, ...]]:
        return {f"{name}.scale": (hidden,), f"{name}.bias": (hidden,)}

    found: dict[str, tuple[int, ...]] = {
        "embedding.word": (config.vocabulary, hidden),
        "embedding.position": (config.positions, hidden),
        "embedding.type": (2, hidden),
        **norm("embedding.norm"),
    }
    for layer in range(config.layers):
        for part in ("query", "key", "value", "output"):
            found |= linear(f"layer{layer}.{part}", hidden, hidden)
        found |= norm(f"layer{layer}.attention_norm")
        found |= linear(f"layer{layer}.up", hidden, wide)
        found |= linear(f"layer{layer}.down", wide, hidden)
        found |= norm(f"layer{layer}.norm")
    found |= linear("pooler", hidden, hidden) | linear("nsp", hidden, 2)
    found |= linear("mlm.dense", hidden, hidden) | norm("mlm.norm")
    found["mlm.bias"] = (config.vocabulary,)
    return found


def initial_weights(config: Config) -> Iterator[tuple[str, Array]]:
    """Name and value of every parameter, one at a time: normal with deviation 0.02, norms at 1.

    Biases are random too, so that no gradient is left out of the comparison of losses.
    """
    for index, (name, shape) in enumerate(shapes(config).items()):
        if name.endswith(".scale"):
            yield name, np.ones(shape, np.float32)
        else:
            random = np.random.default_rng([2024, index])
            yield name, random.standard_normal(shape, np.float32) * np.float32(0.02)


def make_batch(config: Config) -> dict[str, Array]:
    """One batch of random tokens with padding, the same in every process.

    ``tokens``, ``types`` [batch, sequence] int64; ``mask`` [batch, 1, 1, sequence] float32, which
    is added to the attention scores; ``masked`` [batch * predictions] int32, positions in the
    flattened batch; ``labels`` [batch * predictions] int64; ``is_next`` [batch] int64.
    """
    random = np.random.default_rng(2024)
    size = (config.batch, config.sequence)
    shortest = max(config.sequence // 2, config.predictions)
    lengths = random.integers(shortest, config.sequence + 1, config.batch)
    column = np.arange(config.sequence)
    mask = np.where(column < lengths[:, None], 0.0, MASKED_OUT).astype(np.float32)
    masked = [
        row * config.sequence + np.sort(random.permutation(length)[: config.predictions])
        for row, length in enumerate(lengths)
    ]
    return {
        "tokens": random.integers(0, config.vocabulary, size),
        "types": (column >= lengths[:, None] // 2).astype(np.int64),
        "mask": mask[:, None, None, :],
        "masked": np.concatenate(masked).astype(np.int32),
        "labels": random.integers(0, config.vocabulary, config.batch * config.predictions),
        "is_next": random.integers(0, 2, config.batch),
    }


def step_flops(config: Config) -> int:
    """Floating-point operations of the matrix products of one training step.

    A product of [m, k] and [k, n] counts 2 m k n forward and twice that backward. Embedding
    look-ups, normalisation, softmax and Adam count nothing.
    """
    tokens = config.batch * config.sequence
    hidden, predictions = config.hidden, config.batch * config.predictions
    per_layer = tokens * hidden * (4 * hidden + 2 * config.feed_forward + 2 * config.sequence)
    heads = predictions * hidden * (hidden + config.vocabulary) + config.batch * hidden * (
        hidden + 2
    )
    return 3 * 2 * (config.layers * per_layer + heads)
