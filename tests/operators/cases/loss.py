"""Cases of losses beside those of classification."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases.one_operator import call, operator
from tests.operators.operator_case import Array, CaseTable, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_add(
    "log_loss",
    lambda x, y: [F.log_loss(x, y), F.log_loss(x, y, epsilon=0.1)],
    gradient=("x",),
    x=floats([0.2], [0.5], [0.9], [0.0], [1.0]),
    y=floats([0.0], [1.0], [0.25], [0.0], [1.0]),
)
_add(
    "hinge_loss",
    lambda x, y: call("hinge_loss", [x, y], {"Logits": x, "Labels": y}, {"Loss": "float32"}),
    gradient=("x",),
    x=floats([0.2], [1.0], [-1.0], [2.0], [-0.5]),
    y=floats([0.0], [1.0], [0.0], [1.0], [1.0]),
)
_add(
    "hinge_loss",
    lambda x, y: call("hinge_loss", [x, y], {"Logits": x, "Labels": y}, {"Loss": "float32"}),
    gradient=("x",),
    label="no number",
    x=floats([0.2], [np.nan], [np.inf], [-0.9]),
    y=floats([np.nan], [1.0], [0.0], [np.inf]),
)

# Sequences.
_add(
    "warpctc",
    lambda x, n, t, s: [
        F.ctc_loss(x, n, t, s),
        F.ctc_loss(x, n, t, s, reduction="sum"),
        F.ctc_loss(x, n, t, s, reduction="sum", norm_by_times=True),
    ],
    gradient=("x",),
    x=normal(6, 3, 5),
    n=np.asarray([[1, 2, 2], [3, 3, 0], [4, 0, 0]], np.int32),
    t=np.asarray([6, 5, 3]),
    s=np.asarray([3, 2, 1]),
)
_add(
    "warpctc",
    lambda x, n, t, s: F.ctc_loss(x, n, t, s, blank=4, reduction="none").reshape([2, 1]),
    gradient=("x",),
    label="another blank, labels that do not fit",
    x=normal(4, 2, 5),
    n=np.asarray([[1, 1, 1], [3, 2, 0]], np.int32),
    t=np.asarray([4, 4]),
    s=np.asarray([3, 3]),
)
_add(
    "warpctc",
    lambda x, n, t, s: F.ctc_loss(x, n, t, s, reduction="none").reshape([2, 1]),
    gradient=("x",),
    label="no labels",
    x=normal(3, 2, 4),
    n=np.asarray([[1, 2], [0, 0]], np.int32),
    t=np.asarray([3, 2]),
    s=np.asarray([1, 0]),
)
_add(
    "warpctc",
    lambda x, n, t, s: F.ctc_loss(x, n, t, s, reduction="none").reshape([2, 1]),
    gradient=("x",),
    label="a sequence of no times",
    x=normal(3, 2, 4),
    n=np.asarray([[1, 2], [1, 0]], np.int32),
    t=np.asarray([3, 0]),
    s=np.asarray([1, 1]),
)
_add(
    "warpctc",
    lambda x, n, t, s: F.ctc_loss(x, n, t, s, reduction="none", norm_by_times=True).reshape([2, 1]),
    label="by no times",
    x=normal(3, 2, 4),
    n=np.asarray([[1, 2], [1, 0]], np.int32),
    t=np.asarray([3, 0]),
    s=np.asarray([1, 1]),
)


def _log_probabilities(*shape: int) -> Array:
    x = normal(*shape)
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


TABLE.refuse(
    "warpctc",
    lambda x, n: call(
        "warpctc",
        [x, n, None, None, 0, False],
        {"Logits": x, "Label": n},
        {"Loss": "float32", "WarpCTCGrad": "float32"},
    )[0],
    "without lengths its sequences are LoD tensors",
    x=normal(6, 4, 5),
    n=integers(4, 3, low=1, dtype="int32"),
)
_add(
    "warprnnt",
    lambda x, n, t, s: [
        F.rnnt_loss(x, n, t, s, reduction="none", fastemit_lambda=0.0).reshape([3]),
        F.rnnt_loss(x, n, t, s),
    ],
    gradient=("x",),
    x=_log_probabilities(3, 4, 3, 5),
    n=np.asarray([[1, 2], [3, 3], [4, 0]], np.int32),
    t=np.asarray([4, 3, 2], np.int32),
    s=np.asarray([2, 1, 0], np.int32),
)
_add(
    "warprnnt",
    lambda x, n, t, s: F.rnnt_loss(x, n, t, s, blank=4, fastemit_lambda=0.5),
    gradient=("x",),
    label="another blank",
    x=_log_probabilities(2, 4, 3, 5),
    n=np.asarray([[1, 2], [3, 0]], np.int32),
    t=np.asarray([4, 4], np.int32),
    s=np.asarray([2, 2], np.int32),
)

# Many classes.
_add(
    "hsigmoid_loss",
    lambda x, n, w, b: [F.hsigmoid_loss(x, n, 6, w, b), F.hsigmoid_loss(x, n, 6, w)],
    gradient=("x", "w", "b"),
    x=normal(4, 3),
    n=np.asarray([[0], [5], [2], [3]]),
    w=normal(5, 3, seed=1),
    b=normal(5, 1, seed=2),
)
_add(
    "hsigmoid_loss",
    lambda x, n, w, p, c: F.hsigmoid_loss(x, n, 6, w, path_table=p, path_code=c),
    gradient=("x", "w"),
    label="own tree",
    x=normal(3, 3),
    n=np.asarray([[0], [1], [4]]),
    w=normal(5, 3, seed=1),
    p=np.asarray([[0, 2, -1], [0, 1, 2], [0, 1, 4]]),
    c=np.asarray([[0, 0, -1], [0, 1, 0], [1, 0, 1]]),
)
_add(
    "hsigmoid_loss",
    lambda x, n, w: F.hsigmoid_loss(x, n, 4, w),
    gradient=("x", "w"),
    label="bounds",
    x=normal(3, 2) * 100,
    n=np.asarray([[0], [3], [1]]),
    w=normal(3, 2, seed=1),
)
TABLE.refuse(
    "hsigmoid_loss",
    lambda x, n, w: call(
        "hsigmoid_loss",
        [x, n, w, None, None, None, 6, False],
        {"X": x, "Label": n, "W": w},
        {"Out": "float32", "PreOut": "float32", "W_Out": "float32"},
        legacy="hierarchical_sigmoid",
        num_classes=6,
    )[:2],
    "its result .* cannot be read",
    x=normal(4, 3),
    n=np.asarray([[0], [5], [2], [3]]),
    w=normal(5, 3, seed=1),
)


def _margin_of(
    x: Array, n: Array, m1: float, m2: float, m3: float, scale: float
) -> tuple[Array, Array]:
    """(loss, softmax) of cosines with margins."""
    rows = np.arange(len(n))
    logits = x.copy()
    logits[rows, n] = np.cos(m1 * np.arccos(x[rows, n]) + m2) - m3
    logits = logits * x.dtype.type(scale)
    shifted = logits - logits.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -logs[rows, n][:, None], np.exp(logs)


def _margin(x: Array, n: Array) -> list[Array]:
    return [
        *_margin_of(x, n, 1.0, 0.5, 0.0, 8.0),
        _margin_of(x, n, 1.35, 0.3, 0.2, 4.0)[0].mean(),
        _margin_of(x, n, 1.0, 0.0, 0.3, 4.0)[0].sum(),
    ]


def _margin_build(x: Any, n: Any) -> list[Any]:
    loss, softmax = F.margin_cross_entropy(x, n, scale=8.0, return_softmax=True, reduction=None)
    return [
        loss,
        softmax,
        F.margin_cross_entropy(x, n, 1.35, 0.3, 0.2, 4.0),
        F.margin_cross_entropy(x, n, 1.0, 0.0, 0.3, 4.0, reduction="sum"),
    ]


_COSINES: dict[str, Any] = {
    "x": uniform(3, 4, low=-0.9, high=0.9),
    "n": np.asarray([2, 0, 1]),
}
_add("margin_cross_entropy", _margin_build, oracle=_margin, **_COSINES)


def _margin_operator(x: Any, n: Any, m1: float, m2: float, m3: float) -> Any:
    _, loss = operator(
        "margin_cross_entropy",
        {"Logits": x, "Label": n, "margin1": m1, "margin2": m2, "margin3": m3, "scale": 4.0},
        ("Softmax", "Loss"),
    )
    loss.desc.set_shape([3, 1])
    return loss


_add(
    "margin_cross_entropy",
    lambda x, n: [
        _margin_operator(x, n, 1.35, 0.3, 0.2),
        _margin_operator(x, n, 1.0, 0.0, 0.3),
    ],
    gradient=("x",),
    label="gradient",
    gpu_only=True,
    oracle=lambda x, n: [
        _margin_of(x, n, 1.35, 0.3, 0.2, 4.0)[0],
        _margin_of(x, n, 1.0, 0.0, 0.3, 4.0)[0],
    ],
    **_COSINES,
)
TABLE.refuse(
    "margin_cross_entropy",
    lambda x, n: call(
        "margin_cross_entropy",
        [x, n, False, 0, 0, 2, 1.0, 0.5, 0.0, 64.0],
        {"Logits": x, "Label": n},
        {"Softmax": "float32", "Loss": "float32"},
        nranks=2,
    )[1],
    "classes over several ranks are not supported",
    **_COSINES,
)
for _classes, _weights, _message in (
    (4, normal(3, 1), "w has rows of 1 numbers, and x of 3; give both the same"),
    (6, normal(3, 3), "w has 3 rows; a tree of num_classes = 6 has 5 nodes, each with a row"),
    (4, normal(3, 3, 1), r"x is \[2, 3\] and w \[3, 3, 1\], expected \[N, D\] and \[nodes, D\]"),
):
    TABLE.refuse(
        "hsigmoid_loss",
        lambda x, n, w, c=_classes: F.hsigmoid_loss(x, n, c, w),
        _message,
        x=normal(2, 3),
        n=integers(2, 1, high=4),
        w=_weights,
    )
