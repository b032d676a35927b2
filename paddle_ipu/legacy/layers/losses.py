"""``paddle.fluid.layers``: losses, and what training adds to a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
import paddle.nn.functional as F  # noqa: N812

if TYPE_CHECKING:
    from paddle import Tensor

    from paddle_ipu.legacy.layers.activations import Layer

_IGNORED = -100


def softmax_with_cross_entropy(
    logits: Tensor,
    label: Tensor,
    soft_label: bool = False,
    ignore_index: int = _IGNORED,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Tensor | tuple[Tensor, Tensor]:
    """The cross entropy of logits, one loss a row: shape [..., 1]; with the softmax where asked."""
    loss = F.cross_entropy(
        logits,
        label,
        soft_label=soft_label,
        ignore_index=ignore_index,
        reduction="none",
        axis=axis,
    )
    return (loss, F.softmax(logits, axis=axis)) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(
    x: Tensor,
    label: Tensor,
    ignore_index: int = _IGNORED,
    name: str | None = None,
    normalize: bool = False,
) -> Tensor:
    """The binary cross entropy of logits, element by element; ignored elements give 0.

    Args:
        normalize: divide by the number of elements that are not ignored.
    """
    loss = F.binary_cross_entropy_with_logits(x, label, reduction="none")
    kept = paddle.cast(paddle.not_equal(label, paddle.full_like(label, ignore_index)), x.dtype)
    loss = loss * kept
    return loss / paddle.clip(paddle.sum(kept), min=1.0) if normalize else loss


def dropout(
    x: Tensor,
    dropout_prob: float,
    is_test: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Tensor:
    """Dropout; by default it scales in test mode, today's scales in training.

    Raises:
        ValueError: an unknown implementation, or a seed of its own.
    """
    modes = {"downgrade_in_infer": "downscale_in_infer", "upscale_in_train": "upscale_in_train"}
    if dropout_implementation not in modes:
        raise ValueError(
            f"dropout(dropout_implementation={dropout_implementation!r}): expected one of "
            f"{', '.join(map(repr, modes))}."
        )
    if seed:
        raise ValueError(
            f"dropout(seed={seed}): today's dropout has no seed of its own. Call paddle.seed, or "
            "set the strategy's random_seed."
        )
    return F.dropout(x, p=dropout_prob, training=not is_test, mode=modes[dropout_implementation])


FORWARDED: dict[str, Layer] = {
    # One loss a row of probabilities; today's takes logits and averages.
    "cross_entropy": lambda input, label, soft_label=False, ignore_index=_IGNORED: F.cross_entropy(
        input,
        label,
        soft_label=soft_label,
        ignore_index=ignore_index,
        reduction="none",
        use_softmax=False,
    ),
    "identity_loss": lambda x, reduction="none": paddle.incubate.identity_loss(x, reduction),
    "l2_normalize": lambda x, axis, epsilon=1e-12, name=None: (
        x / paddle.sqrt(paddle.sum(x * x, axis=axis, keepdim=True) + epsilon)
    ),
    "label_smooth": lambda label, prior_dist=None, epsilon=0.1, dtype="float32", name=None: (
        F.label_smooth(label, prior_dist, epsilon)
    ),
    "log_loss": lambda input, label, epsilon=1e-4, name=None: F.log_loss(input, label, epsilon),
    "mse_loss": lambda input, label: F.mse_loss(input, label),
    "square_error_cost": lambda input, label: F.square_error_cost(input, label),
}
"""Layer -> its old arguments and defaults, by a function of today's Paddle."""
