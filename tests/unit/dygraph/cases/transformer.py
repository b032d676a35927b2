"""Attention and the layers of the Transformer."""

from __future__ import annotations

from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, numbers

_X, _MEMORY = numbers(2, 3, 8), numbers(2, 4, 8)


TRANSFORMERS = (
    LayerCase("MultiHeadAttention", lambda: nn.MultiHeadAttention(8, 2), (_X,)),
    LayerCase(
        "MultiHeadAttention",
        lambda: nn.MultiHeadAttention(8, 2, kdim=6, vdim=5),
        (_X, numbers(2, 4, 6), numbers(2, 4, 5), numbers(2, 1, 3, 4)),
        "mask",
    ),
    LayerCase("TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(8, 2, 12, 0.0), (_X,)),
    LayerCase(
        "TransformerEncoder",
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", normalize_before=True),
            2,
            nn.LayerNorm(8),
        ),
        (_X, numbers(2, 1, 3, 3)),
    ),
    LayerCase(
        "TransformerDecoderLayer",
        lambda: nn.TransformerDecoderLayer(8, 2, 12, 0.0),
        (_X, _MEMORY),
    ),
    LayerCase(
        "TransformerDecoder",
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, 0.0), 2),
        (_X, _MEMORY, numbers(2, 1, 3, 3)),
    ),
    LayerCase("Transformer", lambda: nn.Transformer(8, 2, 1, 1, 12, 0.0), (_MEMORY, _X)),
    LayerCase(
        "Transformer",
        lambda: nn.Transformer(8, 2, 1, 1, 12),
        (_MEMORY, _X),
        "evaluation",
        frozen=True,
    ),
)
