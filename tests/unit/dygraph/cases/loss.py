"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle import nn

from tests.operators.operator_case import Since
from tests.unit.dygraph.layer_case import LayerCase, classes, numbers, positive, signs

_X, _Y, _Z = numbers(4, 6), numbers(4, 6, of="target"), numbers(4, 6, of="third")
_CLASS = classes(6, 4)
_ONES = (_Y > 0).astype("float32")


class _Gaussian(nn.Layer):  # type: ignore[misc]
    """Without the gradient of the variance: only 2.6's static mode has one, on every device."""

    def __init__(self, full: bool) -> None:
        super().__init__()
        self.loss = nn.GaussianNLLLoss(full)

    def forward(self, x: Any, label: Any, variance: Any) -> Any:
        return self.loss(x, label, variance.detach())


class _Weighted(nn.Layer):  # type: ignore[misc]
    """``BCEWithLogitsLoss``; Paddle 2.6 leaves ``pos_weight`` out where a logit is negative."""

    def forward(self, x: Any, label: Any) -> Any:
        label = label.detach()
        of_ones = 1.0 + (_weights(6) - 1.0) * label
        return _weights(6) * ((1.0 - label) * x + of_ones * nn.functional.softplus(-x))


def _weights(count: int) -> paddle.Tensor:
    return paddle.to_tensor(positive(count))


LOSSES = (
    LayerCase("BCELoss", lambda: nn.BCELoss(), (positive(4, 6), _ONES)),
    LayerCase("BCELoss", lambda: nn.BCELoss(_weights(6), "sum"), (positive(4, 6), _ONES), "sum"),
    LayerCase("BCEWithLogitsLoss", lambda: nn.BCEWithLogitsLoss(), (_X, _ONES)),
    LayerCase(
        "BCEWithLogitsLoss",
        lambda: nn.BCEWithLogitsLoss(_weights(6), "none", _weights(6)),
        (_X, _ONES),
        "weights",
        oracle=_Weighted,
    ),
    LayerCase(
        "CTCLoss",
        lambda: nn.CTCLoss(),
        (
            numbers(7, 3, 5),
            classes(5, 3, 3, first=1).astype("int32"),
            np.asarray([7, 6, 7]),
            np.asarray([3, 2, 1]),
        ),
    ),
    LayerCase("CosineEmbeddingLoss", lambda: nn.CosineEmbeddingLoss(0.1), (_X, _Y, signs(4))),
    LayerCase("CrossEntropyLoss", lambda: nn.CrossEntropyLoss(), (_X, _CLASS)),
    LayerCase(
        "CrossEntropyLoss",
        lambda: nn.CrossEntropyLoss(_weights(6), ignore_index=2),
        (_X, np.asarray([1, 2, 5, 1])),
        "weights",
    ),
    LayerCase(
        "CrossEntropyLoss",
        lambda: nn.CrossEntropyLoss(soft_label=True, reduction="sum"),
        (_X, np.asarray([[0.5, 0.1, 0.1, 0.1, 0.2, 0.0]] * 4, "float32")),
        "soft",
    ),
    LayerCase(
        "CrossEntropyLoss",
        lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
        (_X, _CLASS),
        "smoothed",
    ),
    LayerCase("HSigmoidLoss", lambda: nn.HSigmoidLoss(6, 5), (_X, classes(5, 4, 1))),
    LayerCase("HingeEmbeddingLoss", lambda: nn.HingeEmbeddingLoss(), (_X, signs(4, 6))),
    LayerCase(
        "KLDivLoss",
        lambda: nn.KLDivLoss("batchmean"),
        (np.log(positive(4, 6)), positive(4, 6, of="t")),
    ),
    LayerCase("L1Loss", lambda: nn.L1Loss("none"), (_X, _Y)),
    LayerCase("MSELoss", lambda: nn.MSELoss(), (_X, _Y)),
    LayerCase("MarginRankingLoss", lambda: nn.MarginRankingLoss(0.2), (_X, _Y, signs(4, 6))),
    LayerCase(
        "MultiLabelMarginLoss",
        lambda: nn.MultiLabelMarginLoss(),
        (_X, np.asarray([[1, 3, -1, 0, 0, 0], [0, -1, 1, 1, 1, 1]] * 2)),
    ),
    LayerCase("MultiLabelSoftMarginLoss", lambda: nn.MultiLabelSoftMarginLoss(), (_X, _ONES)),
    LayerCase("MultiMarginLoss", lambda: nn.MultiMarginLoss(), (_X, _CLASS)),
    LayerCase("NLLLoss", lambda: nn.NLLLoss(), (_X, _CLASS)),
    LayerCase("NLLLoss", lambda: nn.NLLLoss(_weights(6)), (_X, _CLASS), "weights"),
    LayerCase("PoissonNLLLoss", lambda: nn.PoissonNLLLoss(full=True), (_X, positive(4, 6) * 4)),
    LayerCase(
        "RNNTLoss",
        lambda: nn.RNNTLoss(),
        (
            numbers(2, 4, 3, 5),
            classes(5, 2, 2, first=1).astype("int32"),
            np.asarray([4, 3], "int32"),
            np.asarray([2, 1], "int32"),
        ),
    ),
    LayerCase("SmoothL1Loss", lambda: nn.SmoothL1Loss(delta=0.5), (_X, _Y)),
    LayerCase("SoftMarginLoss", lambda: nn.SoftMarginLoss(), (_X, signs(4, 6))),
    LayerCase("TripletMarginLoss", lambda: nn.TripletMarginLoss(swap=True), (_X, _Y, _Z)),
    LayerCase(
        "TripletMarginWithDistanceLoss", lambda: nn.TripletMarginWithDistanceLoss(), (_X, _Y, _Z)
    ),
    LayerCase(
        "AdaptiveLogSoftmaxWithLoss",
        lambda: nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 6], head_bias=True),
        (_X, np.asarray([1, 4, 9, 2])),
        since=Since("3.1", "its function asks for shapes that static mode does not know"),
    ),
)

ASSERTING = (
    LayerCase("GaussianNLLLoss", lambda: _Gaussian(False), (_X, _Y, positive(4, 6))),
    LayerCase("GaussianNLLLoss", lambda: _Gaussian(True), (_X, _Y, positive(4, 6)), "full"),
)
"""An assertion calls Python, and XLA's cache keeps no program that does."""
