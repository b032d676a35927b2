"""T5 (arXiv:1910.10683): an encoder and a decoder that reads it, with biases by distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.decoding import next_token
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.transformer import attention, pre_norm_layers

if TYPE_CHECKING:
    from paddle import Tensor

_EPSILON = 1e-6
_DISTANCES = 32
"""Groups of distances, each with a bias of its own."""
_FARTHEST = 128
"""Tokens that lie farther apart are alike."""


@dataclass(frozen=True, slots=True)
class T5:
    """Sizes of a T5; encoder and decoder have rows of as many tokens.

    Attributes:
        layers: of the encoder, and of the decoder.
        inner: elements between the products of a feed-forward part.
        tied: the first version, whose embedding of words is the output's weight, too, and whose
            feed-forward is of two products with ReLU. Later ones have GELU times a third product.
    """

    hidden: int
    layers: int
    heads: int
    inner: int
    tied: bool = False
    vocabulary: int = 32128
    dropout: float = 0.1

    items: ClassVar[str] = "tokens"
    size: ClassVar[int] = 512
    most: ClassVar[int] = 32768
    rows: ClassVar[int] = 1
    optimizer: ClassVar[str] = "AdamW"

    def __str__(self) -> str:
        return (
            f"encoder and decoder, each {self.layers} layers of {self.hidden}, {self.heads} heads"
        )

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of the next tokens; in inference the next token's logits ``[rows, words]``.

        Args:
            size: tokens of a row that the encoder reads, and of one that the decoder reads.
        """
        words = builder.parameter("embeddings.word", [self.vocabulary, self.hidden])
        # Both together, so that the words are needed on one IPU.
        read, written = (
            builder.dropout(self._embedded(builder, name, words, size), self.dropout)
            for name in ("tokens", "written")
        )
        visible = builder.hidden_where(builder.feed("visible", [size], "int32"), size)
        memory = self._stack(builder, read, "encoder", size, visible)
        x = self._stack(builder, written, "decoder", size, visible, memory)
        return next_token(builder, x, size, lambda y: self._logits(builder, y, words))

    def _embedded(self, builder: LayerBuilder, name: str, words: Tensor, size: int) -> Tensor:
        x = builder.embedding(builder.feed(name, [size], "int32"), words)
        return builder.reshape(x, [-1, self.hidden])

    def _logits(self, builder: LayerBuilder, x: Tensor, words: Tensor) -> Tensor:
        if self.tied:
            return builder.matmul(x * self.hidden**-0.5, words, transpose_y=True)
        return builder.linear(x, "output", self.vocabulary, bias=False)

    def _stack(
        self,
        builder: LayerBuilder,
        x: Tensor,
        name: str,
        size: int,
        visible: Tensor,
        memory: Tensor | None = None,
    ) -> Tensor:
        """The encoder, or with its output the decoder; x ``[rows * size, hidden]``.

        Args:
            visible: of the encoder's tokens, what is added to scores.
        """
        is_encoder = memory is None
        numbers = [number_of(distance, is_encoder) for distance in (*range(size), *range(-size, 0))]
        table = builder.parameter(f"{name}.distances", [_DISTANCES, self.heads])
        # One line goes from stage to stage; its matrix, which is large, each layer makes.
        biases = builder.rows_of(table, numbers)

        def attended(y: Tensor, part: str) -> Tensor:
            mask = visible if is_encoder else builder.hidden_after(size)
            return self._attention(builder, y, part, size, mask + builder.by_distance(biases))

        parts: dict[str, Callable[[Tensor, str], Tensor]] = {"attention": attended}
        if memory is not None:
            parts["memory"] = lambda y, part: self._attention(
                builder, y, part, size, visible, memory
            )
        parts["feed_forward"] = lambda y, part: self._fed_forward(builder, y, part)
        x = pre_norm_layers(
            builder, x, name, self.layers, dropout=self.dropout, parts=parts,
            norm=lambda y, part: builder.rms_norm(y, part, _EPSILON),
        )  # fmt: skip
        return builder.dropout(builder.rms_norm(x, f"{name}.norm", _EPSILON), self.dropout)

    def _attention(
        self,
        builder: LayerBuilder,
        x: Tensor,
        name: str,
        size: int,
        mask: Tensor,
        memory: Tensor | None = None,
    ) -> Tensor:
        return attention(
            builder, x, name, heads=self.heads, tokens=size, mask=mask, memory=memory,
            bias=False, scaled=False, dropout=self.dropout,
        )  # fmt: skip

    def _fed_forward(self, builder: LayerBuilder, x: Tensor, name: str) -> Tensor:
        wide = builder.linear(x, f"{name}.inner", self.inner, bias=False)
        if self.tied:
            wide = builder.relu(wide)
        else:
            up = builder.linear(x, f"{name}.up", self.inner, bias=False)
            wide = builder.gelu(wide) * up
        wide = builder.dropout(wide, self.dropout)
        return builder.linear(wide, f"{name}.outer", self.hidden, bias=False)


def number_of(distance: int, both_ways: bool) -> int:
    """The number of a key's distance from its query, of those that share a bias.

    Half of them are of one distance each, and the others are the wider the farther they lie.

    Args:
        both_ways: keys behind the query have numbers of their own; else they are at distance 0.
    """
    numbers, first = _DISTANCES, 0
    if both_ways:
        numbers //= 2
        first = numbers if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    single = numbers // 2
    if distance < single:
        return first + distance
    share = math.log(distance / single) / math.log(_FARTHEST / single)
    return first + min(single + int(share * (numbers - single)), numbers - 1)
