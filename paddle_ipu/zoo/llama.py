"""LLaMA (arXiv:2302.13971): a decoder with RMS norms, rotary positions and SwiGLU, no biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.decoding import next_token
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.transformer import attention, pre_norm_layers

if TYPE_CHECKING:
    from paddle import Tensor

_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Llama:
    """Sizes of a LLaMA; it was trained on rows of 2048 tokens."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int = 32000
    rotary_base: float = 10000.0

    items: ClassVar[str] = "tokens"
    size: ClassVar[int] = 2048
    most: ClassVar[int] = 32768
    rows: ClassVar[int] = 1
    optimizer: ClassVar[str] = "AdamW"

    def __str__(self) -> str:
        return f"decoder, {self.layers} layers of {self.hidden}, {self.heads} heads"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of the next tokens; in inference the next token's logits ``[rows, words]``.

        Args:
            size: tokens of a row.
        """
        words = builder.parameter("embeddings.word", [self.vocabulary, self.hidden])
        x = builder.embedding(builder.feed("tokens", [size], "int32"), words)
        x = builder.reshape(x, [-1, self.hidden])
        width = self.hidden // self.heads
        x = pre_norm_layers(
            builder, x, "decoder", self.layers,
            norm=lambda x, name: builder.rms_norm(x, name, _EPSILON),
            parts={
                "attention": lambda x, name: attention(
                    builder, x, name, heads=self.heads, tokens=size, bias=False,
                    mask=builder.hidden_after(size),
                    rotary=builder.rotary_angles(size, width, self.rotary_base),
                ),
                "feed_forward": lambda x, name: self._feed_forward(builder, x, name),
            },
        )  # fmt: skip
        x = builder.rms_norm(x, "norm", _EPSILON)
        return next_token(
            builder, x, size, lambda y: builder.linear(y, "output", self.vocabulary, bias=False)
        )

    def _feed_forward(self, builder: LayerBuilder, x: Tensor, name: str) -> Tensor:
        """SwiGLU: ``down(silu(gate(x)) * up(x))``."""
        gate, up = (
            builder.linear(x, f"{name}.{part}", self.feed_forward, bias=False)
            for part in ("gate", "up")
        )
        return builder.linear(builder.silu(gate) * up, f"{name}.down", self.hidden, bias=False)
