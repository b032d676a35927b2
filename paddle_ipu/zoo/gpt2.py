"""GPT-2 (Radford et al., 2019): a decoder with learned positions and norms before each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.decoding import next_token
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.transformer import attention, feed_forward, pre_norm_layers

if TYPE_CHECKING:
    from paddle import Tensor

_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Gpt2:
    """Sizes of a GPT-2; the embedding of words is the output's weight, too."""

    hidden: int
    layers: int
    heads: int
    vocabulary: int = 50257
    dropout: float = 0.1

    items: ClassVar[str] = "tokens"
    size: ClassVar[int] = 1024
    most: ClassVar[int] = 1024
    rows: ClassVar[int] = 2
    optimizer: ClassVar[str] = "AdamW"

    def __str__(self) -> str:
        return f"decoder, {self.layers} layers of {self.hidden}, {self.heads} heads"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of the next tokens; in inference the next token's logits ``[rows, words]``.

        Args:
            size: tokens of a row.
        """
        words = builder.parameter("embeddings.word", [self.vocabulary, self.hidden])
        positions = builder.parameter("embeddings.position", [self.most, self.hidden])
        x = builder.embedding(builder.feed("tokens", [size], "int32"), words) + positions[:size]
        x = builder.dropout(builder.reshape(x, [-1, self.hidden]), self.dropout)
        x = pre_norm_layers(
            builder, x, "decoder", self.layers, dropout=self.dropout,
            norm=lambda x, name: builder.layer_norm(x, name, _EPSILON),
            parts={
                "attention": lambda x, name: attention(
                    builder, x, name, heads=self.heads, tokens=size,
                    mask=builder.hidden_after(size), dropout=self.dropout,
                ),
                "feed_forward": lambda x, name: feed_forward(builder, x, name, 4 * self.hidden),
            },
        )  # fmt: skip
        x = builder.layer_norm(x, "norm", _EPSILON)
        return next_token(builder, x, size, lambda y: builder.matmul(y, words, transpose_y=True))
