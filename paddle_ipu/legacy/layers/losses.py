"""``paddle.fluid.layers``: losses, and what training adds to a network."""

from __future__ import annotations

from typing import Any

import paddle
import paddle.nn.functional as F  # noqa: N812

_IGNORED = -100


def cross_entropy(
    input: Any, label: Any, soft_label: bool = False, ignore_index: int = _IGNORED
) -> Any:
    """``-log(input[label])`` of probabilities, one loss a row: shape [..., 1].

    Today's ``F.cross_entropy`` takes logits and averages.
    """
    return F.cross_entropy(
        input,
        label,
        soft_label=soft_label,
        ignore_index=ignore_index,
        reduction="none",
        use_softmax=False,
    )


def softmax_with_cross_entropy(
    logits: Any,
    label: Any,
    soft_label: bool = False,
    ignore_index: int = _IGNORED,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
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


def square_error_cost(input: Any, label: Any) -> Any:
    """``(input - label)²``."""
    return F.square_error_cost(input, label)


def mse_loss(input: Any, label: Any) -> Any:
    """The mean of ``(input - label)²``."""
    return F.mse_loss(input, label)


def log_loss(input: Any, label: Any, epsilon: float = 1e-4, name: str | None = None) -> Any:
    """``-label log(input + epsilon) - (1 - label) log(1 - input + epsilon)``."""
    return F.log_loss(input, label, epsilon)


def sigmoid_cross_entropy_with_logits(
    x: Any,
    label: Any,
    ignore_index: int = _IGNORED,
    name: str | None = None,
    normalize: bool = False,
) -> Any:
    """The binary cross entropy of logits, element by element; ignored elements give 0.

    Args:
        normalize: divide by the number of elements that are not ignored.
    """
    loss = F.binary_cross_entropy_with_logits(x, label, reduction="none")
    kept = paddle.cast(paddle.not_equal(label, paddle.full_like(label, ignore_index)), x.dtype)
    loss = loss * kept
    return loss / paddle.clip(paddle.sum(kept), min=1.0) if normalize else loss


def identity_loss(x: Any, reduction: str | int = "none") -> Any:
    """Marks the loss, reduced by sum, mean or not at all (or 0, 1, 2 in that order)."""
    return paddle.incubate.identity_loss(x, reduction)


def label_smooth(
    label: Any,
    prior_dist: Any = None,
    epsilon: float = 0.1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Any:
    """``(1 - epsilon) label + epsilon prior``, an even prior by default."""
    return F.label_smooth(label, prior_dist, epsilon)


def dropout(
    x: Any,
    dropout_prob: float,
    is_test: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Any:
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


def l2_normalize(x: Any, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Any:
    """``x / sqrt(sum(x²) + epsilon)``."""
    return x / paddle.sqrt(paddle.sum(x * x, axis=axis, keepdim=True) + epsilon)
