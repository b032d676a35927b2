"""BERT (arXiv:1810.04805): an encoder, pretrained on masked words and next sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.transformer import attention, feed_forward

if TYPE_CHECKING:
    from paddle import Tensor

_EPSILON = 1e-12
_MASKED = 0.15
"""Share of the words that are to be guessed."""


@dataclass(frozen=True, slots=True)
class Bert:
    """Sizes of a BERT.

    A row's masked words lie in front, CLS behind them, as PaddleNLP's script for IPUs has it: its
    heads read slices.
    """

    hidden: int
    layers: int
    heads: int
    vocabulary: int = 30522
    dropout: float = 0.1

    items: ClassVar[str] = "tokens"
    size: ClassVar[int] = 128
    most: ClassVar[int] = 512
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "Lamb"

    def __str__(self) -> str:
        return f"encoder, {self.layers} layers of {self.hidden}, {self.heads} heads"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """Loss of masked words and next sentence; in inference the pooled CLS ``[rows, hidden]``.

        Args:
            size: tokens of a row.
        """
        words = builder.parameter("embeddings.word", [self.vocabulary, self.hidden])
        x = self._encoded(builder, words, size)
        x = builder.reshape(x, [-1, size, self.hidden])
        masked = masked_words(size)
        pooled = builder.tanh(builder.linear(x[:, masked], "pooler", self.hidden))
        if not builder.training:
            return pooled
        guessed = builder.reshape(x[:, :masked], [-1, self.hidden])
        guessed = builder.gelu(builder.linear(guessed, "masked_words.transform", self.hidden))
        guessed = builder.layer_norm(guessed, "masked_words.norm", _EPSILON)
        logits = builder.matmul(guessed, words, transpose_y=True)
        logits = logits + builder.parameter("masked_words.bias", [self.vocabulary])
        labels = builder.reshape(builder.feed("masked_words", [masked], "int32"), [-1])
        follows = builder.linear(pooled, "next_sentence", 2)
        follows_label = builder.reshape(builder.feed("next_sentence", [1], "int32"), [-1])
        return builder.cross_entropy(logits, labels) + builder.cross_entropy(follows, follows_label)

    def _encoded(self, builder: LayerBuilder, words: Tensor, size: int) -> Tensor:
        """The last layer's output, ``[rows * size, hidden]``."""
        tables = {"position": self.most, "segment": 2}
        x = builder.embedding(builder.feed("tokens", [size], "int32"), words)
        for name, entries in tables.items():
            table = builder.parameter(f"embeddings.{name}", [entries, self.hidden])
            x = x + builder.embedding(builder.feed(f"{name}s", [size], "int32"), table)
        x = builder.reshape(x, [-1, self.hidden])
        x = builder.dropout(builder.layer_norm(x, "embeddings.norm", _EPSILON), self.dropout)
        mask = builder.hidden_where(builder.feed("visible", [size], "int32"), size)
        for layer in range(self.layers):
            name = f"encoder.{layer}"
            attended = attention(
                builder, x, f"{name}.attention", heads=self.heads, tokens=size, mask=mask,
                dropout=self.dropout,
            )  # fmt: skip
            x = x + builder.dropout(attended, self.dropout)
            x = builder.layer_norm(x, f"{name}.attention.norm", _EPSILON)
            wide = feed_forward(builder, x, f"{name}.feed_forward", 4 * self.hidden)
            x = x + builder.dropout(wide, self.dropout)
            x = builder.checkpoint(builder.layer_norm(x, f"{name}.feed_forward.norm", _EPSILON))
        return x


def masked_words(tokens: int) -> int:
    """Words of a row that are to be guessed: 20 of 128."""
    return math.ceil(_MASKED * tokens)
