"""What follows a decoder's last layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor


def next_token(
    builder: LayerBuilder, x: Tensor, tokens: int, logits_of: Callable[[Tensor], Tensor]
) -> Tensor:
    """The mean loss of all tokens' successors; in inference logits of the one behind a row.

    Args:
        x: ``[rows * tokens, hidden]``.
        logits_of: gives the logits ``[n, words]`` of ``[n, hidden]``.
    """
    if not builder.training:
        return logits_of(builder.reshape(x, [-1, tokens, x.shape[-1]])[:, tokens - 1])
    labels = builder.reshape(builder.feed("next_tokens", [tokens], "int32"), [-1])
    return builder.cross_entropy(logits_of(x), labels)
