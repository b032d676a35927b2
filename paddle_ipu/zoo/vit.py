"""Vision Transformer (arXiv:2010.11929): an encoder over patches of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.transformer import attention, feed_forward, pre_norm_layers

if TYPE_CHECKING:
    from paddle import Tensor

_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Vit:
    """Sizes of a ViT for images of 224 x 224.

    Attributes:
        dropout: share of what the positions and a layer's linear layers give that is left out, but
            for queries, keys and values (appendix B.1).
        attention_dropout: share of the probabilities that is left out; the paper has none.
    """

    hidden: int
    layers: int
    heads: int
    patch: int
    classes: int = 1000
    dropout: float = 0.1
    attention_dropout: float = 0.0

    items: ClassVar[str] = ""
    size: ClassVar[int] = 224
    most: ClassVar[int] = 224
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "AdamW"

    def __str__(self) -> str:
        patches = f"patches of {self.patch}"
        return f"encoder of {patches}, {self.layers} layers of {self.hidden}, {self.heads} heads"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of an image's class; in inference the logits ``[rows, classes]``.

        Args:
            size: height and width of an image.
        """
        patches = (size // self.patch) ** 2
        x = builder.convolution(
            builder.pixels(size), "embeddings.patch", self.hidden, self.patch, self.patch
        )
        x = builder.transpose(builder.reshape(x, [-1, self.hidden, patches]), [0, 2, 1])
        # One for each row, of which nobody knows how many there are.
        first = x[:, :1] * 0.0 + builder.parameter("embeddings.class", [1, 1, self.hidden])
        tokens = patches + 1
        x = builder.concat([first, x], 1) + builder.parameter(
            "embeddings.position", [tokens, self.hidden]
        )
        x = builder.dropout(builder.reshape(x, [-1, self.hidden]), self.dropout)
        x = pre_norm_layers(
            builder, x, "encoder", self.layers, dropout=self.dropout,
            norm=lambda x, name: builder.layer_norm(x, name, _EPSILON),
            parts={
                "attention": lambda x, name: attention(
                    builder, x, name, heads=self.heads, tokens=tokens,
                    dropout=self.attention_dropout,
                ),
                "feed_forward": lambda x, name: feed_forward(
                    builder, x, name, 4 * self.hidden, self.dropout
                ),
            },
        )  # fmt: skip
        first = builder.reshape(x, [-1, tokens, self.hidden])[:, 0]
        first = builder.layer_norm(first, "norm", _EPSILON)
        logits = builder.linear(first, "classifier", self.classes)
        if not builder.training:
            return logits
        labels = builder.reshape(builder.feed("label", [1], "int32"), [-1])
        return builder.cross_entropy(logits, labels)
