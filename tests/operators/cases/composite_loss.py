"""Cases of losses that ``paddle.nn.functional`` writes with several operators."""

from __future__ import annotations

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases import by_operator
from tests.operators.cases.network import negative_log_likelihood
from tests.operators.operator_case import Array, CaseTable, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_X, _Y, _Z = normal(3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2)
_CHANCE = uniform(3, 4, low=0.1, high=0.9)
_ONES = integers(3, 4, high=2).astype(np.float32)


def _signs(*shape: int) -> Array:
    return (integers(*shape, high=2) * 2 - 1).astype(np.float32)


_add(
    "where",
    lambda x, y, n: [
        F.cosine_embedding_loss(x, y, n, margin=0.2),
        F.cosine_embedding_loss(x, y, n, reduction="none"),
    ],
    gradient=("x", "y"),
    label="cosine embedding loss",
    x=_X,
    y=_Y,
    n=np.asarray([1, -1, 1]),
)
_add(
    "p_norm",
    lambda x, y, z: [
        F.triplet_margin_loss(x, y, z, swap=True),
        F.triplet_margin_loss(x, y, z, margin=3.0, p=1, reduction="sum"),
        F.triplet_margin_with_distance_loss(x, y, z, margin=3.0, swap=True),
    ],
    gradient=("x", "y", "z"),
    label="triplet margin losses",
    x=_X,
    y=_Y,
    z=_Z,
)
_add(
    "logsigmoid",
    lambda x, n, w: [
        F.multi_label_soft_margin_loss(x, n),
        F.multi_label_soft_margin_loss(x, n, weight=w, reduction="none"),
    ],
    gradient=("x",),
    label="soft margin loss of many labels",
    x=_X,
    n=_ONES,
    w=uniform(4),
)
_add(
    "exp",
    lambda x, y, p: [
        F.poisson_nll_loss(x, y),
        F.poisson_nll_loss(x, y, full=True, reduction="sum"),
        F.poisson_nll_loss(p, y, log_input=False),
    ],
    gradient=("x", "p"),
    label="Poisson likelihood",
    x=_X,
    y=uniform(3, 4, high=4.0),
    p=_CHANCE,
)
_add(
    "one_hot",
    lambda x, n: F.dice_loss(F.softmax(x), n),
    gradient=("x",),
    label="dice loss",
    x=_X,
    n=integers(3, 1, high=4),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, y, n: F.npair_loss(x, y, n, l2_reg=0.1),
    gradient=("x", "y"),
    label="pairs of many classes",
    x=_X,
    y=_Y,
    n=floats(0.0, 1.0, 1.0),
)
_add(
    "sigmoid_cross_entropy_with_logits",
    lambda x, n, m: [
        F.sigmoid_focal_loss(x, n, m),
        F.sigmoid_focal_loss(x, n, alpha=0.5, gamma=1.5, reduction="mean"),
    ],
    gradient=("x",),
    label="focal loss",
    x=_X,
    n=_ONES,
    m=floats(2.0),
)
_add(
    "relu",
    lambda x, y, n: [
        F.margin_ranking_loss(x, y, n, margin=0.3),
        F.hinge_embedding_loss(x, n),
        F.hinge_embedding_loss(x, n, margin=0.5, reduction="sum"),
    ],
    gradient=("x", "y"),
    label="hinges",
    x=_X,
    y=_Y,
    n=_signs(3, 4),
)
_add(
    "log",
    lambda x, n: F.soft_margin_loss(x, n),
    gradient=("x",),
    label="soft margin loss",
    x=_X,
    n=_signs(3, 4),
)
_add(
    "index_sample",
    lambda x, n, w: [
        F.multi_margin_loss(x, n),
        F.multi_margin_loss(x, n, p=2, margin=0.5, weight=w, reduction="sum"),
    ],
    gradient=("x",),
    label="margins between classes",
    x=_X,
    n=np.asarray([0, 3, 1]),
    w=uniform(4),
)
_add(
    "bce_loss",
    lambda x, y, w: F.binary_cross_entropy(x, y, weight=w),
    gradient=("x",),
    label="weights",
    x=_CHANCE,
    y=uniform(3, 4, high=0.9, seed=2),
    w=uniform(3, 4, seed=4),
)
_add(
    "sigmoid_cross_entropy_with_logits",
    lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, weight=w, reduction="sum"),
    gradient=("x",),
    label="weights",
    x=_X,
    y=uniform(3, 4, high=0.9, seed=2),
    w=uniform(3, 4, seed=4),
)
_add(
    "sigmoid_cross_entropy_with_logits",
    lambda x, y: by_operator.normalized_sigmoid_cross_entropy(x, y, 1),
    gradient=("x",),
    label="a label's fraction",
    x=uniform(3, 4),
    y=floats([0.2, 1.7, 1.0, 2.0], [-1.5, 1.2, 0.9, 0.0], [0.5, 1.0, 1.9, 0.1]),
)
_add(
    "huber_loss",
    lambda x, y: F.smooth_l1_loss(x, y, reduction="sum", delta=2.0),
    gradient=("x", "y"),
    label="sum",
    x=_X,
    y=_Y,
)
_add(
    "cross_entropy_with_softmax",
    lambda x, n, w: F.cross_entropy(x, n, weight=w, ignore_index=1, axis=1),
    gradient=("x",),
    label="weights of channels",
    x=normal(2, 3, 4),
    n=integers(2, 4, high=3),
    w=uniform(3),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, y: F.cross_entropy(x, y, soft_label=True, label_smoothing=0.1),
    gradient=("x",),
    label="smoothed soft labels",
    x=_X,
    y=_CHANCE / _CHANCE.sum(1, keepdims=True),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, n, z, m: [
        *by_operator.cross_entropy(x, n, ignore_index=1),
        by_operator.cross_entropy(z, m, axis=1)[1],
    ],
    gradient=("x", "z"),
    label="with the softmax",
    x=_X,
    n=integers(3, 1, high=4),
    z=normal(2, 3, 4),
    m=integers(2, 1, 4, high=3),
)
_add(
    "nll_loss",
    lambda x, n, w: [
        F.nll_loss(x, n, weight=w, ignore_index=1, reduction=kind)
        for kind in ("mean", "sum", "none")
    ],
    gradient=("x",),
    label="weights of channels",
    oracle=lambda x, n, w: [
        negative_log_likelihood(x, n, w, ignored=1, kind=kind) for kind in ("mean", "sum", "none")
    ],
    x=normal(2, 3, 2, 2),
    n=integers(2, 2, 2, high=3),
    w=uniform(3),
)
