"""BERT in small, in Paddle's public API: MLM with a tied embedding, NSP, a SQuAD head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
from paddle.nn import functional as F  # noqa: N812 - Paddle's own abbreviation

from tests.journeys.training.side_by_side import Built, build, pair

VOCABULARY, HIDDEN, HEADS, LAYERS, SEQUENCE, BATCH = 97, 32, 2, 2, 16, 4
# Token 0 hides and pads, so it is no label.
IGNORED = 0
TEXT = ("ids", "segments", "positions", "mask")
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: paddle.optimizer.SGD(0.1),
    "adam": lambda: paddle.optimizer.Adam(2e-3),
    "lamb": lambda: paddle.optimizer.Lamb(1e-2, lamb_weight_decay=0.01),
}


class Attention(paddle.nn.Layer):
    """Self-attention with an additive mask [batch, 1, 1, sequence]."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.query = paddle.nn.Linear(HIDDEN, HIDDEN)
        self.key = paddle.nn.Linear(HIDDEN, HIDDEN)
        self.value = paddle.nn.Linear(HIDDEN, HIDDEN)
        self.out = paddle.nn.Linear(HIDDEN, HIDDEN)
        self.dropout = paddle.nn.Dropout(dropout)

    def _heads(self, x: Any) -> Any:
        return paddle.transpose(
            paddle.reshape(x, [-1, SEQUENCE, HEADS, HIDDEN // HEADS]), [0, 2, 1, 3]
        )

    def forward(self, x: Any, mask: Any) -> Any:
        query, key, value = (self._heads(f(x)) for f in (self.query, self.key, self.value))
        scores = paddle.matmul(query, key, transpose_y=True) * (HIDDEN // HEADS) ** -0.5
        weights = self.dropout(F.softmax(scores + mask, axis=-1))
        mixed = paddle.transpose(paddle.matmul(weights, value), [0, 2, 1, 3])
        return self.out(paddle.reshape(mixed, [-1, SEQUENCE, HIDDEN]))


class Block(paddle.nn.Layer):
    """Attention and feed-forward, each with a residual and a layer norm after it."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(dropout)
        self.norm1 = paddle.nn.LayerNorm(HIDDEN)
        self.up = paddle.nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = paddle.nn.Linear(4 * HIDDEN, HIDDEN)
        self.norm2 = paddle.nn.LayerNorm(HIDDEN)
        self.dropout = paddle.nn.Dropout(dropout)

    def forward(self, x: Any, mask: Any) -> Any:
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Encoder(paddle.nn.Layer):
    """Token, position and segment embeddings and the blocks."""

    def __init__(self, dropout: float, layers: int = LAYERS) -> None:
        super().__init__()
        self.words = paddle.nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = paddle.nn.Embedding(SEQUENCE, HIDDEN)
        self.segments = paddle.nn.Embedding(2, HIDDEN)
        self.norm = paddle.nn.LayerNorm(HIDDEN)
        self.dropout = paddle.nn.Dropout(dropout)
        self.blocks = paddle.nn.LayerList([Block(dropout) for _ in range(layers)])

    def forward(self, ids: Any, segments: Any, positions: Any, mask: Any) -> Any:
        x = self.words(ids) + self.positions(positions) + self.segments(segments)
        x = self.dropout(self.norm(x))
        additive = ((mask - 1.0) * 10000.0).unsqueeze([1, 2])
        for block in self.blocks:
            x = block(x, additive)
        return x


@dataclass
class TinyBert:
    """A built pretraining program.

    Attributes:
        key_biases: names of the key projections' biases. Softmax does not change when a number is
            added to all scores of a query, which is all that such a bias does; its gradient is
            zero in exact arithmetic, and what an optimizer makes of it is rounding noise.
    """

    built: Built
    key_biases: list[str] = field(default_factory=list)


def _text() -> list[Any]:
    ints = [paddle.static.data(name, [-1, SEQUENCE], "int64") for name in TEXT[:3]]
    return [*ints, paddle.static.data("mask", [-1, SEQUENCE], "float32")]


def pretraining(optimizer: Callable[[], Any], dropout: float = 0.0) -> TinyBert:
    """MLM + NSP with `optimizer`, metrics built after ``minimize``."""
    key_biases: list[str] = []

    def make() -> tuple[list[str], dict[str, Any], Any]:
        text = _text()
        mlm_labels = paddle.static.data("mlm_labels", [-1, SEQUENCE], "int64")
        nsp_labels = paddle.static.data("nsp_labels", [-1], "int64")
        encoder = Encoder(dropout)
        key_biases.extend(block.attention.key.bias.name for block in encoder.blocks)
        x = encoder(*text)
        transform, norm = paddle.nn.Linear(HIDDEN, HIDDEN), paddle.nn.LayerNorm(HIDDEN)
        bias = paddle.create_parameter([VOCABULARY], "float32", is_bias=True)
        hidden = norm(F.gelu(transform(x)))
        scores = paddle.matmul(hidden, encoder.words.weight, transpose_y=True) + bias
        mlm = F.cross_entropy(scores, mlm_labels, ignore_index=IGNORED)
        pooler, classifier = paddle.nn.Linear(HIDDEN, HIDDEN), paddle.nn.Linear(HIDDEN, 2)
        nsp_scores = classifier(paddle.tanh(pooler(x[:, 0])))
        nsp = F.cross_entropy(nsp_scores, nsp_labels)
        loss = mlm + nsp
        optimizer().minimize(loss)
        known = paddle.cast(mlm_labels != IGNORED, "float32")
        right = paddle.cast(paddle.argmax(scores, axis=-1) == mlm_labels, "float32")
        accuracy = paddle.sum(right * known) / paddle.sum(known)
        values = {"loss": loss, "mlm": mlm, "nsp": nsp, "mlm_accuracy": accuracy}
        return [*TEXT, "mlm_labels", "nsp_labels"], values, None

    return TinyBert(build(make), key_biases)


def squad(optimizer: Callable[[], Any]) -> tuple[Built, list[str]]:
    """Start and end of an answer; the loss is the mean of their cross entropies.

    Returns:
        The program and the names of the biases whose gradient is zero in exact arithmetic: the key
        projections', and the head's and the last norm's, which shift all places' scores alike.
    """
    noisy: list[str] = []

    def make() -> tuple[list[str], dict[str, Any], Any]:
        text = _text()
        start, end = (paddle.static.data(name, [-1, 1], "int64") for name in ("start", "end"))
        encoder = Encoder(0.0, layers=1)
        noisy.extend(block.attention.key.bias.name for block in encoder.blocks)
        x = encoder(*text)
        head = paddle.nn.Linear(HIDDEN, 2)
        noisy.extend([head.bias.name, encoder.blocks[-1].norm2.bias.name])
        scores = paddle.transpose(head(x), [2, 0, 1])
        start_scores, end_scores = paddle.unstack(scores, axis=0)
        loss = (F.cross_entropy(start_scores, start) + F.cross_entropy(end_scores, end)) / 2
        optimizer().minimize(loss)
        found = paddle.cast(
            paddle.argmax(start_scores, axis=-1, keepdim=True) == start, "float32"
        ).mean()
        values = {
            "loss": loss,
            "scores": scores,
            "start_accuracy": found,
        }
        return [*TEXT, "start", "end"], values, None

    return build(make), noisy


def sentences(step: int, batch: int = BATCH) -> dict[str, np.ndarray]:
    """A batch: rows that count upwards, some tokens hidden, some padding at the end."""
    rng = np.random.RandomState(step)
    first = rng.randint(0, 8, (batch, 1))
    related = rng.randint(0, 2, (batch, 1))
    place = np.arange(SEQUENCE)
    second_half = place >= SEQUENCE // 2
    tokens = 1 + (first + place + second_half * (1 - related) * 31) % (VOCABULARY - 1)
    length = rng.randint(SEQUENCE - 4, SEQUENCE + 1, (batch, 1))
    real = place < length
    hidden = (rng.random_sample((batch, SEQUENCE)) < 0.25) & real
    hidden[:, 2] = True
    return {
        "ids": np.where(hidden | ~real, 0, tokens).astype(np.int64),
        "segments": np.broadcast_to(second_half, tokens.shape).astype(np.int64),
        "positions": np.broadcast_to(place, tokens.shape).astype(np.int64),
        "mask": real.astype(np.float32),
        "mlm_labels": np.where(hidden, tokens, IGNORED).astype(np.int64),
        "nsp_labels": related[:, 0].astype(np.int64),
    }


def questions(step: int, batch: int = BATCH) -> dict[str, np.ndarray]:
    """A batch for :func:`squad`."""
    feed = sentences(step, batch)
    rng = np.random.RandomState(1000 + step)
    start = rng.randint(0, SEQUENCE // 2, (batch, 1))
    kept = {name: feed[name] for name in TEXT}
    return {**kept, "start": start, "end": start + rng.randint(0, 4, (batch, 1))}


def assert_fifty_steps_equal_paddles(optimizer: str) -> None:
    """Fifty steps of pretraining on both devices: every loss, then the weights."""
    bert = pretraining(OPTIMIZERS[optimizer])
    both = pair(bert.built, spread=0.05)
    losses = []
    for step in range(50):
        cpu, ipu = both.step(sentences(step))
        for value, expected in cpu.items():
            assert ipu[value].shape == expected.shape
            assert ipu[value].dtype == expected.dtype
        for value in ("loss", "mlm", "nsp"):
            np.testing.assert_allclose(ipu[value], cpu[value], rtol=1e-5, err_msg=f"step {step}")
        losses.append(cpu["loss"].item())
    # A run that stands still would agree with anything.
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5
    both.assert_equal_weights(1e-4, except_for=bert.key_biases)
