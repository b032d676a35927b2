"""LSTM language models (Zaremba et al., arXiv:1409.2329): layers of LSTMs with dropout between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.decoding import next_token
from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor


@dataclass(frozen=True, slots=True)
class LstmLanguage:
    """Sizes of a language model of LSTMs, each row of which begins with a state of zeros.

    Attributes:
        dropout: share of what each layer reads, and of the last one's result, that is left out.
    """

    hidden: int
    layers: int
    dropout: float
    vocabulary: int = 10000

    items: ClassVar[str] = "tokens"
    size: ClassVar[int] = 35
    most: ClassVar[int] = 1024
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "SGD"

    def __str__(self) -> str:
        return f"recurrent, {self.layers} LSTMs of {self.hidden}"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of the next tokens; in inference the next token's logits ``[rows, words]``.

        Args:
            size: tokens of a row.
        """
        words = builder.parameter("embeddings.word", [self.vocabulary, self.hidden])
        x = builder.embedding(builder.feed("tokens", [size], "int32"), words)
        for layer in range(self.layers):
            x = builder.dropout(x, self.dropout)
            x = builder.checkpoint(builder.lstm(x, f"layers.{layer}", self.hidden))
        x = builder.dropout(builder.reshape(x, [-1, self.hidden]), self.dropout)
        return next_token(builder, x, size, lambda y: builder.linear(y, "output", self.vocabulary))
