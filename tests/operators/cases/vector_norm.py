"""Cases of norms: every order, ties, zeros, and what is scaled by a norm."""

from __future__ import annotations

import numpy as np
import paddle

from tests.operators.cases import by_operator
from tests.operators.operator_case import CaseTable, floats, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_add(
    "p_norm",
    lambda x: [paddle.norm(x), paddle.norm(x, 2, axis=1), paddle.norm(x, 2, axis=0, keepdim=True)],
    gradient=("x",),
    x=normal(3, 4),
)
_add("p_norm", lambda x: paddle.norm(x, 1, axis=1), gradient=("x",), label="one", x=normal(3, 4))
_add(
    "p_norm",
    lambda x: [
        paddle.norm(x, np.inf, axis=1),
        paddle.norm(x, -np.inf, axis=1),
        paddle.norm(x, np.inf, axis=0, keepdim=True),
    ],
    gradient=("x",),
    label="infinity",
    x=normal(3, 4),
)
_add(
    "p_norm",
    lambda x: [paddle.norm(x, np.inf, axis=1), paddle.norm(x, -np.inf, axis=1)],
    gradient=("x",),
    label="ties",
    x=np.asarray([[1.0, -3.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0], [2.0, -2.0, 2.0, -1.0]], np.float32),
)
_add(
    "p_norm",
    lambda x: paddle.norm(x, np.inf, axis=1),
    label="infinite elements",
    x=np.asarray([[np.inf, 1.0], [-np.inf, np.inf]], np.float32),
)
_add(
    "p_norm",
    lambda x: [paddle.norm(x, 0, axis=1), paddle.norm(x, 0, axis=0, keepdim=True)],
    gradient=("x",),
    label="count",
    x=np.asarray([[0.0, 2.0, -1.0], [0.0, 0.0, 5.0]], np.float32),
)
for _label, _order in (("three", 3), ("one and a half", 1.5), ("minus two", -2), ("half", 0.5)):
    _add(
        "p_norm",
        lambda x, p=_order: [paddle.norm(x, p, axis=1), paddle.norm(x, p)],
        gradient=("x",),
        label=_label,
        x=uniform(3, 4) * np.asarray([1, -1, 1, -1], np.float32),
    )
for _label, _order in (("two at zero", 2), ("three at zero", 3)):
    _add(
        "p_norm",
        lambda x, p=_order: paddle.norm(x, p, axis=1),
        gradient=("x",),
        label=_label,
        x=np.asarray([[0.0, 0.0], [3.0, 4.0]], np.float32),
    )
_add(
    "frobenius_norm",
    lambda x: [
        paddle.norm(x, "fro", axis=[0, 1]),
        paddle.norm(x, "fro", axis=[-1, 1], keepdim=True),
    ],
    gradient=("x",),
    x=normal(2, 3, 4),
)
for _label, _order in (
    ("two", 2),
    ("one", 1),
    ("count", 0),
    ("infinity", np.inf),
    ("minus infinity", -np.inf),
    ("three", 3),
):
    _add(
        "dist",
        lambda x, y, p=_order: paddle.dist(x, y, p),
        gradient=("x", "y"),
        label=_label,
        x=normal(3, 4),
        y=normal(4, seed=1),
    )
_add(
    "dist",
    lambda x, y: [paddle.dist(x, y, 0.0), paddle.linalg.norm(x, 0.0, axis=0)],
    gradient=("x",),
    label="a count with NaN",
    x=floats(1.0, np.nan, 0.0, np.inf),
    y=floats(1.0, 0.0, 0.0, 0.0),
)
_add("l1_norm", by_operator.l1_norm, gradient=("x",), x=floats(-1.5, 0.0, 2.0, 3.0))
_add("squared_l2_norm", by_operator.squared_l2_norm, gradient=("x",), x=normal(2, 3))
_add("norm", lambda x: by_operator.norm(x, 1, 1e-10), gradient=("x",), x=normal(2, 3, 4))
_add(
    "norm",
    lambda x: by_operator.norm(x, -1, 0.5),
    gradient=("x",),
    label="epsilon",
    x=normal(2, 3),
)
_add(
    "clip_by_norm",
    lambda x: [paddle.nn.clip.clip_by_norm(x, 1.0), paddle.nn.clip.clip_by_norm(x, 100.0)],
    x=normal(3, 4),
)
_add(
    "clip_by_norm", lambda x: paddle.nn.clip.clip_by_norm(x, 1.0), label="zero", x=floats(0.0, 0.0)
)
_add(
    "clip_by_norm",
    lambda x: [paddle.nn.clip.clip_by_norm(x[at], 1.0) for at in range(2)],
    label="NaN and infinity",
    x=np.asarray([[0.5, np.nan, 2.0], [0.5, -1.0, np.inf]], np.float32),
)
_add(
    "renorm",
    lambda x: [paddle.renorm(x, 2.0, 0, 1.0), paddle.renorm(x, 1.5, -1, 2.0)],
    gradient=("x",),
    x=normal(3, 2, 4),
)
_add(
    "renorm",
    lambda x: paddle.renorm(x, 2.0, 0, 1.0),
    gradient=("x",),
    label="of a vector each number is a slice",
    x=np.asarray([0.5, 1.0, -1.0, 3.0], np.float32),
)
_add(
    "renorm",
    lambda x: paddle.renorm(x, 2.0, 0, 1.0),
    gradient=("x",),
    label="within",
    x=np.asarray([[0.0, 0.0], [0.1, 0.2], [3.0, -4.0]], np.float32),
)
_add(
    "renorm",
    lambda x: [
        paddle.renorm(x, order, 0, limit)
        for order, limit in ((2.0, -1.0), (20.0, 1e30), (-1.0, 1.0), (0.0, 1.0), (2.0, np.inf))
    ],
    label="unusual orders and limits",
    x=np.asarray([[0.0, 0.0], [1.0, 2.0], [3.0, -4.0]], np.float32),
)
_add(
    "renorm",
    lambda x: paddle.renorm(x, 2.0, 0, 1.0),
    gradient=("x",),
    label="NaN and infinity",
    x=np.asarray([[np.nan, 0.0], [0.1, 2.0], [np.inf, -4.0]], np.float32),
)
