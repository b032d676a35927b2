"""Layers of Paddle that are traced in another form for the IPU, with the same numbers.

Paddle writes some with shapes that depend on values, or for GPUs only. While a strategy is
registered and a layer is traced, these replace them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import paddle
from paddle.nn import functional

from paddle_ipu.dygraph import registration
from paddle_ipu.errors import NotSupported
from paddle_ipu.options.strategy import Strategy

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.nn import SyncBatchNorm


def traced_as(form: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A wrapper of Paddle's function: `form` while a layer is traced for the IPU."""

    def wrapping(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **keywords: Any) -> object:
            return (original if _traced_with() is None else form)(*args, **keywords)

        return call

    return wrapping


def _traced_with() -> Strategy | None:
    """The strategy that a layer is traced for; None outside of a trace."""
    return None if paddle.in_dynamic_mode() else registration.current()


def normalizing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``paddle.nn.SyncBatchNorm.forward`` with batch norm while a layer is traced for the IPU."""

    # Paddle reads the parameters of a layer's forward from its code.
    @functools.wraps(original)
    def forward(self: SyncBatchNorm, x: Tensor) -> Tensor:
        strategy = _traced_with()
        return original(self, x) if strategy is None else _batch_norm(self, x, strategy)

    return forward


def _batch_norm(self: SyncBatchNorm, x: Tensor, strategy: Strategy) -> Tensor:
    options = strategy._ipu_strategy.snapshot()
    count = options["replicated_graph_count"] if options["enable_replicated_graphs"] else 1
    if count > 1:
        # Batches of replicas are not joined.
        raise NotSupported(
            f"paddle.nn.SyncBatchNorm takes its statistics from all {count} replicas, "
            "and batch norm of the IPU has those of a replica's own micro-batch. Use "
            "paddle.nn.BatchNorm2D, which does that on purpose, paddle.nn.GroupNorm, which needs "
            "no batch, or one replica."
        )
    return paddle.nn.functional.batch_norm(
        x,
        self._mean,
        self._variance,
        self.weight,
        self.bias,
        training=self.training,
        momentum=self._momentum,
        epsilon=self._epsilon,
        data_format=self._data_format,
    )


def multi_label_margin_loss(
    input: Tensor,
    label: Tensor,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """``F.multi_label_margin_loss``, over all pairs of classes in place of the ones that count.

    Args:
        input: scores [N, C].
        label: classes [N, C] up to the first -1 of a row.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is {reduction!r}; it must be 'mean', 'sum' or 'none'.")
    count = input.shape[1]
    counts = paddle.cumprod((label != -1).cast("int32"), dim=1)
    target = label * counts.cast(label.dtype)
    counts = counts.cast(input.dtype)
    hits = functional.one_hot(target, count).cast(input.dtype) * counts.unsqueeze(2)
    others = 1.0 - hits.max(1)
    of_target = paddle.take_along_axis(input, target, 1)
    margin = 1.0 - of_target.unsqueeze(2) + input.unsqueeze(1)
    margin = paddle.maximum(margin, paddle.zeros_like(margin))
    losses = (margin * others.unsqueeze(1) * counts.unsqueeze(2)).sum([1, 2]) / count
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def adaptive_log_softmax_with_loss(
    input: Tensor,
    label: Tensor,
    head_weight: Tensor,
    tail_weights: Sequence[Sequence[Tensor]],
    cutoffs: Sequence[int],
    head_bias: Tensor | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """``F.adaptive_log_softmax_with_loss``, with every row in every cluster.

    Args:
        input: [N, features], or [features].
        label: classes [N], or [].
        head_weight: [features, cutoffs[0] + clusters].
        tail_weights: of each cluster [features, size] and [size, classes].
        cutoffs: the first class of each cluster, and the number of classes.
        head_bias: [cutoffs[0] + clusters].
    """
    is_batched = len(label.shape) > 0
    if not is_batched:
        input, label = input.unsqueeze(0), label.unsqueeze(0)
    entry = label
    parts = []
    clusters = zip(cutoffs[:-1], cutoffs[1:], tail_weights, strict=True)
    for number, (first, end, (down, up)) in enumerate(clusters):
        inside = (label >= first) & (label < end)
        # A class that does not exist stays an index out of range.
        entry = paddle.where(inside, paddle.full_like(label, cutoffs[0] + number), entry)
        own = paddle.where(inside, label - first, paddle.zeros_like(label))
        scores = functional.log_softmax(functional.linear(functional.linear(input, down), up), 1)
        score = paddle.take_along_axis(scores, own.unsqueeze(1), 1).squeeze(1)
        parts.append(paddle.where(inside, score, paddle.zeros_like(score)))
    head = functional.log_softmax(functional.linear(input, head_weight, head_bias), 1)
    parts.append(paddle.take_along_axis(head, entry.unsqueeze(1), 1).squeeze(1))
    output = paddle.add_n(parts)
    loss = (-output).mean()
    return (output if is_batched else output.squeeze(0)), loss
