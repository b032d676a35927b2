"""Cases of matrix products, normalisation, attention, losses and metrics."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases import by_operator
from tests.operators.operator_case import (
    Array,
    CaseTable,
    Since,
    floats,
    integers,
    normal,
    uniform,
)

TABLE = CaseTable()
_add = TABLE.add

_LABELS = np.asarray([2, 0, 1])
_DISTRIBUTIONS = uniform(3, 4) / uniform(3, 4).sum(axis=1, keepdims=True)
_IGNORED = np.asarray([2, -100, 1])


def negative_log_likelihood(
    x: Array, labels: Array, weights: Array | None = None, ignored: int = -100, kind: str = "mean"
) -> Array:
    """``nll_loss`` of [N, C, ...] in NumPy.

    Paddle's CPU kernel writes a zero past a reduced result for each label left out, so that its
    process may end much later (``paddle/phi/kernels/cpu/nll_loss_kernel.cc``).
    """
    counted = labels != ignored
    chosen = np.where(counted, labels, 0)
    by_label = counted * (np.ones(x.shape[1]) if weights is None else weights)[chosen]
    losses = -by_label * np.take_along_axis(x, chosen[:, np.newaxis], 1)[:, 0]
    if kind == "mean":
        losses = losses.sum() / (by_label.sum() or 1.0)
    elif kind == "sum":
        losses = losses.sum()
    return np.asarray(losses, x.dtype)


# Matrix products.
_add(
    "matmul",
    lambda x, y, w, v: [
        paddle.matmul(x, y, transpose_y=True),
        paddle.matmul(x, y, transpose_x=True),
        paddle.matmul(x, w),
        paddle.matmul(x, v),
        paddle.matmul(v, v),
    ],
    gradient=("x", "y", "w", "v"),
    x=normal(2, 3, 4),
    y=normal(2, 3, 4, seed=1),
    w=normal(4, 5, seed=2),
    v=normal(4, seed=3),
)
_add(
    "bmm",
    paddle.bmm,
    gradient=("x", "y"),
    x=normal(2, 3, 4),
    y=normal(2, 4, 2, seed=1),
)
_add("mv", paddle.mv, gradient=("x", "y"), x=normal(3, 4), y=normal(4))
_add(
    "dot",
    lambda x, y: [paddle.dot(x, y), paddle.dot(x[0], y[0])],
    gradient=("x", "y"),
    x=normal(3, 4),
    y=normal(3, 4, seed=1),
)
_add(
    "addmm",
    lambda a, x, y: [paddle.addmm(a, x, y), paddle.addmm(a, x, y, beta=0.5, alpha=2.0)],
    gradient=("a", "x", "y"),
    a=normal(3, 2),
    x=normal(3, 4, seed=1),
    y=normal(4, 2, seed=2),
)
_add(
    "addmm",
    lambda a, x, y: paddle.addmm(a, x, y, beta=0.0),
    label="without what is added",
    gradient=("a", "x", "y"),
    a=floats([np.nan, np.inf], [-np.inf, 1.0], [0.0, 2.0]),
    x=normal(3, 4, seed=1),
    y=normal(4, 2, seed=2),
)

# Softmax, normalisation, dropout.
for _op, _function in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
    _add(
        _op,
        lambda x, s, f=_function: [f(x), f(x, axis=1), f(x, axis=0), f(s)],
        gradient=("x",),
        x=normal(2, 3, 4) * 3,
        s=np.asarray(3.0, np.float32),
    )
_add(
    "layer_norm",
    lambda x, w, b: [F.layer_norm(x, 4, w, b, epsilon=1e-12), F.layer_norm(x, [3, 4])],
    gradient=("x", "w", "b"),
    x=normal(2, 3, 4),
    w=uniform(4),
    b=normal(4),
)
_add(
    "dropout",
    lambda x, zeros: [
        F.dropout(x, 0.0),
        # What is kept is drawn by chance; of zeros nothing is seen of it.
        F.dropout(zeros, 0.5),
        F.dropout(zeros, 0.5, mode="downscale_in_infer"),
        F.dropout(x, 1.0),
        F.dropout(x, 0.5, training=False),
        F.dropout(x, 0.25, training=False, mode="downscale_in_infer"),
    ],
    gradient=("x",),
    x=normal(3, 4),
    zeros=np.zeros((3, 4), np.float32),
)
_add(
    "matmul",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    gradient=("q", "k", "v"),
    label="causal attention",
    since=Since("3.3", "the function writes an operator without a CPU kernel"),
    q=normal(2, 4, 2, 3),
    k=normal(2, 4, 2, 3, seed=1),
    v=normal(2, 4, 2, 3, seed=2),
)

# Losses.
_add(
    "cross_entropy_with_softmax",
    lambda x, n: [
        F.cross_entropy(x, n),
        F.cross_entropy(x, n, reduction="none"),
        F.cross_entropy(x, n, reduction="sum"),
        *by_operator.cross_entropy(x, n.unsqueeze(-1), use_softmax=True),
    ],
    gradient=("x",),
    x=normal(3, 4),
    n=_LABELS,
)
_add(
    "cross_entropy_with_softmax",
    lambda x, n, m: [
        F.cross_entropy(x, n),
        F.cross_entropy(x, n, reduction="none"),
        F.cross_entropy(x, m, ignore_index=2),
    ],
    gradient=("x",),
    label="ignored labels",
    x=normal(3, 4),
    n=_IGNORED,
    m=_LABELS.astype(np.int16),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, n, w: [
        F.cross_entropy(x, n, weight=w),
        F.cross_entropy(x, n, weight=w, reduction="none"),
        F.cross_entropy(x, n, label_smoothing=0.1),
    ],
    gradient=("x",),
    label="class weights and smoothing",
    x=normal(3, 4),
    n=_LABELS,
    w=uniform(4),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, p, w: [
        F.cross_entropy(x, p, soft_label=True),
        F.cross_entropy(x, p, soft_label=True, weight=w, reduction="none"),
        F.cross_entropy(x.t(), p.t(), soft_label=True, axis=0),
    ],
    gradient=("x",),
    label="soft labels",
    x=normal(3, 4),
    p=_DISTRIBUTIONS,
    w=uniform(4, seed=1),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, n: F.cross_entropy(x, n, axis=1),
    gradient=("x",),
    label="axis 1",
    x=normal(2, 3, 4),
    n=integers(2, 4, high=3),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, n: [
        F.cross_entropy(x, n, use_softmax=False),
        *by_operator.cross_entropy(x, n.unsqueeze(-1), use_softmax=False),
    ],
    gradient=("x",),
    label="probabilities",
    x=uniform(3, 4, low=0.1, high=0.9),
    n=_LABELS,
)
_add(
    "identity_loss",
    lambda x: [paddle.incubate.identity_loss(x, kind) for kind in ("sum", "mean", "none")],
    gradient=("x",),
    x=uniform(3, 4),
)
_add(
    "nll_loss",
    lambda x, n, m, w: [
        F.nll_loss(x, n),
        F.nll_loss(x, m, reduction="sum"),
        F.nll_loss(x, m, weight=w),
        F.nll_loss(x, n, weight=w, reduction="none"),
    ],
    gradient=("x",),
    oracle=lambda x, n, m, w: [
        negative_log_likelihood(x, n),
        negative_log_likelihood(x, m, kind="sum"),
        negative_log_likelihood(x, m, w),
        negative_log_likelihood(x, n, w, kind="none"),
    ],
    x=normal(3, 4),
    n=_LABELS,
    m=_IGNORED,
    w=uniform(4),
)
_add(
    "nll_loss",
    lambda x, n: F.nll_loss(x, n, ignore_index=1),
    gradient=("x",),
    oracle=lambda x, n: negative_log_likelihood(x, n, ignored=1),
    label="all labels ignored",
    x=normal(2, 3),
    n=np.asarray([1, 1]),
)
_add(
    "label_smooth",
    lambda x: F.label_smooth(x),
    label="no classes",
    x=np.zeros((2, 0), np.float32),
)
_add(
    "nll_loss",
    lambda x, n: F.nll_loss(x, n),
    gradient=("x",),
    label="four axes",
    x=normal(2, 3, 2, 2),
    n=integers(2, 2, 2, high=3),
)
_add(
    "label_smooth",
    lambda x, p: [F.label_smooth(x), F.label_smooth(x, p, epsilon=0.3)],
    x=np.eye(3, 4, dtype=np.float32),
    p=uniform(1, 4),
)
_add(
    "label_smooth",
    lambda x, p: [F.label_smooth(x), F.label_smooth(x, p, epsilon=0.3)],
    gradient=("x",),
    label="gradient",
    since=Since("3.0", "the operator's outputs have no gradient in a static program"),
    x=np.eye(3, 4, dtype=np.float32),
    p=uniform(1, 4),
)
_add(
    "huber_loss",
    lambda x, y: [F.smooth_l1_loss(x, y), F.smooth_l1_loss(x, y, reduction="none", delta=0.5)],
    gradient=("x", "y"),
    x=floats(0.0, 1.0, 2.0, -1.0, 0.5, 3.0),
    y=floats(0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
)
_add(
    "huber_loss",
    lambda x, y: F.smooth_l1_loss(x, y, reduction="none", delta=0.5),
    gradient=("x", "y"),
    label="far away",
    x=floats(1.0, 2.0, np.nan, np.inf, 1e30),
    y=floats(np.inf, -np.inf, 1.0, 1.0, -1e30),
)
_add(
    "bce_loss",
    lambda x, y: [F.binary_cross_entropy(x, y), F.binary_cross_entropy(x, y, reduction="none")],
    gradient=("x",),
    x=floats(0.1, 0.5, 0.9, 0.999),
    y=floats(0.0, 1.0, 0.25, 1.0),
)
_add(
    "bce_loss",
    lambda x, y: F.binary_cross_entropy(x, y, reduction="none"),
    gradient=("x",),
    label="bounds",
    x=floats(0.0, 1.0, 0.0, 1.0),
    y=floats(0.0, 1.0, 1.0, 0.0),
)
_add(
    "mean_all",
    by_operator.mean_all,
    gradient=("x",),
    x=normal(2, 3),
)
_add(
    "sigmoid_cross_entropy_with_logits",
    lambda x, y: [
        F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        F.sigmoid_focal_loss(x, y),
        by_operator.normalized_sigmoid_cross_entropy(x, y, ignore_index=1),
    ],
    gradient=("x",),
    x=floats(-20.0, -1.0, 0.3, 2.0, 20.0),
    y=floats(0.0, 1.0, 0.0, 0.5, 1.0),
)
_add(
    "sigmoid_cross_entropy_with_logits",
    lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
    gradient=("x",),
    label="zero",
    since=Since("3.0", "the kernel's gradient jumps at a logit of zero"),
    x=floats(0.0, 0.0),
    y=floats(0.0, 1.0),
)
_add(
    "sigmoid_cross_entropy_with_logits",
    lambda x, y, p: F.binary_cross_entropy_with_logits(x, y, pos_weight=p),
    gradient=("x",),
    label="weight of positives",
    since=Since("3.0", "the kernel leaves the weight out where the logit is negative"),
    x=floats(-20.0, -1.0, 0.0, 2.0, 20.0),
    y=floats(0.0, 1.0, 0.0, 0.5, 1.0),
    p=floats(1.5),
)
_add(
    "kldiv_loss",
    lambda x, y: [
        F.kl_div(x, y),
        F.kl_div(x, y, reduction="batchmean"),
        F.kl_div(x, y, reduction="none"),
        by_operator.kldiv_loss(x, y, "mean"),
        by_operator.kldiv_loss(x, y, "sum"),
        by_operator.kldiv_loss(x, y, "batchmean"),
    ],
    gradient=("x",),
    x=normal(2, 3),
    y=np.asarray([[0.0, 0.25, 0.75], [1.0, 0.5, -0.5]], np.float32),
)
_add(
    "kldiv_loss",
    lambda x, y: F.kl_div(x, y, reduction="none"),
    gradient=("x",),
    label="nan",
    x=normal(2, 3),
    y=np.asarray([[0.0, np.nan, 0.75], [np.inf, 0.5, -0.5]], np.float32),
)
_add(
    "kldiv_loss",
    lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
    gradient=("x",),
    label="logarithmic target",
    since=Since("3.0", "the function has no log_target"),
    x=normal(2, 3),
    y=normal(2, 3, seed=1),
)
_add(
    "square",
    lambda x, y: [F.mse_loss(x, y), F.mse_loss(x, y, reduction="sum")],
    gradient=("x", "y"),
    label="mean squared error",
    x=normal(2, 3),
    y=normal(2, 3, seed=1),
)
_add(
    "abs",
    lambda x, y: F.l1_loss(x, y),
    gradient=("x",),
    label="l1 loss at zero",
    x=floats(1.0, 2.0, -1.0),
    y=floats(1.0, 0.0, 0.0),
)

# Metrics.
_add(
    "accuracy",
    lambda x, n: [paddle.static.accuracy(x, n), paddle.static.accuracy(x, n, k=2)],
    x=uniform(5, 4),
    n=integers(5, 1, high=4),
)
