"""What transformers share: attention of several heads, and feed-forward of two products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor


def attention(
    builder: LayerBuilder,
    x: Tensor,
    name: str,
    *,
    heads: int,
    tokens: int,
    mask: Tensor | None = None,
    rotary: tuple[Tensor, Tensor] | None = None,
    bias: bool = True,
    dropout: float = 0.0,
    scaled: bool = True,
    memory: Tensor | None = None,
) -> Tensor:
    """Attention of x ``[rows * tokens, hidden]``, projected to the same shape.

    Args:
        mask: is added to the scores ``[rows, heads, tokens, tokens]``.
        rotary: cosines and sines by which queries and keys are turned.
        bias: projections have one.
        dropout: share of the probabilities that is left out.
        scaled: scores are divided by the root of a head's width.
        memory: what keys and values are of, where it is not x; of as many tokens.
    """
    hidden = x.shape[-1]
    width = hidden // heads

    def projected(part: str) -> Tensor:
        source = x if memory is None or part == "query" else memory
        y = builder.linear(source, f"{name}.{part}", hidden, bias)
        y = builder.reshape(y, [-1, tokens, heads, width])
        if rotary is not None and part != "value":
            y = _turned(builder, y, rotary)
        return builder.transpose(y, [0, 2, 1, 3])

    query, key, value = (projected(part) for part in ("query", "key", "value"))
    scores = builder.matmul(query, key, transpose_y=True)
    if scaled:
        scores = scores * width**-0.5
    if mask is not None:
        scores = scores + mask
    shares = builder.dropout(builder.softmax(scores), dropout)
    mixed = builder.transpose(builder.matmul(shares, value), [0, 2, 1, 3])
    return builder.linear(builder.reshape(mixed, [-1, hidden]), f"{name}.output", hidden, bias)


def pre_norm_layers(
    builder: LayerBuilder,
    x: Tensor,
    name: str,
    layers: int,
    *,
    norm: Callable[[Tensor, str], Tensor],
    parts: Mapping[str, Callable[[Tensor, str], Tensor]],
    dropout: float = 0.0,
) -> Tensor:
    """Layers that add to x ``[n, hidden]`` what each part makes of its norm.

    Args:
        name: of all layers; a part's is ``name.number.part``.
        norm: of x, by its name.
        parts: of a layer, in order, each of a norm, by its name.
        dropout: share of what is added that is left out.
    """
    for layer in range(layers):
        for part, act in parts.items():
            inner = f"{name}.{layer}.{part}"
            x = x + builder.dropout(act(norm(x, f"{inner}.norm"), inner), dropout)
        x = builder.checkpoint(x)
    return x


def feed_forward(
    builder: LayerBuilder, x: Tensor, name: str, inner: int, dropout: float = 0.0
) -> Tensor:
    """Two products with GELU between them; x ``[n, hidden]``, the result likewise.

    Args:
        dropout: share of what the second product reads that is left out.
    """
    wide = builder.dropout(builder.gelu(builder.linear(x, f"{name}.inner", inner)), dropout)
    return builder.linear(wide, f"{name}.outer", x.shape[-1])


def _turned(builder: LayerBuilder, x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """x ``[rows, tokens, heads, width]`` turned: elements i and i + width / 2 are planes."""
    half = x.shape[-1] // 2
    cosines, sines = rotary
    return x * cosines + builder.concat([-x[:, :, :, half:], x[:, :, :, :half]], 3) * sines
