"""Cases of normalisation in images' layouts, and of weights."""

from __future__ import annotations

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases import vision_by_operator
from tests.operators.operator_case import Array, CaseTable, floats, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_IMAGE = normal(2, 4, 6, 7)


def _with(array: Array, numbers: dict[tuple[int, ...], float]) -> Array:
    for at, number in numbers.items():
        array[at] = number
    return array


_BROKEN = _with(
    normal(2, 4, 2, 3), {(0, 1, 1, 1): np.inf, (1, 0, 0, 2): np.nan, (1, 3, 0, 0): -np.inf}
)
"""Images of which some channels of some samples have numbers that are none."""


def _group_norm(x: Array, groups: int) -> Array:
    apart = x.reshape(x.shape[0], groups, -1)
    variance = apart.var(axis=-1, keepdims=True)
    normal = (apart - apart.mean(axis=-1, keepdims=True)) / np.sqrt(variance + x.dtype.type(1e-5))
    return np.asarray(normal.reshape(x.shape))


_add(
    "group_norm",
    lambda x, w, b: [
        vision_by_operator.group_norm(x, 2, w, b),
        vision_by_operator.group_norm(x, 4, w, b, epsilon=0.1),
        vision_by_operator.group_norm(x, 1, w),
    ],
    gradient=("x", "w", "b"),
    x=_IMAGE,
    w=uniform(4),
    b=normal(4),
)
_add(
    "group_norm",
    lambda x, w, b: vision_by_operator.group_norm(x, 2, w, b, layout="NHWC"),
    gradient=("x", "w", "b"),
    label="channels last",
    x=normal(2, 6, 7, 4),
    w=uniform(4),
    b=normal(4),
)
_add(
    "group_norm",
    lambda x, w, b: vision_by_operator.group_norm(x, 3, w, b),
    gradient=("x", "w", "b"),
    label="volume",
    x=normal(2, 6, 2, 3, 2),
    w=uniform(6),
    b=normal(6),
)
_add(
    "group_norm",
    lambda x, b: [
        vision_by_operator.group_norm(x, 2),
        vision_by_operator.group_norm(x, 2, None, b),
    ],
    gradient=("x", "b"),
    label="no scale",
    limitation="without a scale Paddle's kernel leaves a term of the gradient out; here it is that "
    "of a scale of ones",
    oracle=lambda x, b: [_group_norm(x, 2), _group_norm(x, 2) + b[:, None, None]],
    x=normal(1, 4, 2, 3),
    b=normal(4),
)
_add(
    "instance_norm",
    lambda x, y, w, b: [
        F.instance_norm(x, weight=w, bias=b),
        F.instance_norm(x, eps=0.1),
        F.instance_norm(y, weight=w, bias=b),
        F.instance_norm(y[:, :, 0]),
    ],
    gradient=("x", "y", "w", "b"),
    x=_IMAGE,
    y=normal(2, 4, 2, 3, 3),
    w=uniform(4),
    b=normal(4),
)
_add(
    "group_norm",
    lambda x, w, b: vision_by_operator.group_norm(x, 2, w, b),
    gradient=("x", "w", "b"),
    label="infinities and NaN stay in their group",
    x=_BROKEN,
    w=uniform(4),
    b=normal(4),
)
_add(
    "instance_norm",
    lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    gradient=("x", "w", "b"),
    label="infinities and NaN stay in their channel",
    x=_BROKEN,
    w=uniform(4),
    b=normal(4),
)
_add(
    "layer_norm",
    lambda x, w, b: F.layer_norm(x, [4], w, b),
    gradient=("x", "w", "b"),
    label="infinities, NaN and huge numbers stay in their row",
    x=_with(normal(5, 4), {(0, 1): np.inf, (1, 2): np.nan, (2, 0): 1e20, (4, 3): 3e38}),
    w=uniform(4),
    b=normal(4),
)
_add(
    "layer_norm",
    lambda x, w, b: [
        F.layer_norm(x, [3, 4], w, epsilon=1e-3),
        F.layer_norm(x, [3, 4], None, b),
        F.layer_norm(x, [2, 3, 4], w.tile([2])),
        F.layer_norm(x, 4),
    ],
    gradient=("x", "w", "b"),
    label="one of scale and bias",
    x=normal(2, 2, 3, 4),
    w=uniform(12),
    b=normal(12),
)
_add(
    "affine_channel",
    lambda x, w, b: vision_by_operator.affine_channel(x, w, b, "NCHW"),
    gradient=("x", "w", "b"),
    x=_IMAGE,
    w=uniform(4),
    b=normal(4),
)
_add(
    "affine_channel",
    lambda x, w, b: vision_by_operator.affine_channel(x, w, b, "NHWC"),
    gradient=("x", "w", "b"),
    label="channels last",
    x=normal(2, 6, 7, 4),
    w=uniform(4),
    b=normal(4),
)
_add(
    "spectral_norm",
    lambda w, u, v: vision_by_operator.spectral_norm(w, u, v, dim=0, power_iters=1),
    gradient=("w",),
    w=normal(4, 3, 2),
    u=normal(4),
    v=normal(6),
)
_add(
    "spectral_norm",
    lambda w, u, v: [
        vision_by_operator.spectral_norm(w, u, v, dim=0, power_iters=0),
        vision_by_operator.spectral_norm(w, u, v, dim=0, power_iters=1),
    ],
    gradient=("w",),
    label="a start of zeros",
    w=normal(4, 3, 2),
    u=np.zeros(4, np.float32),
    v=normal(6),
)
_add(
    "spectral_norm",
    lambda w, u, v: vision_by_operator.spectral_norm(w, u, v, dim=0, power_iters=0),
    label="an infinite start",
    w=normal(4, 3, 2),
    u=floats(np.inf, 1.0, 2.0, 3.0),
    v=normal(6),
)
_add(
    "spectral_norm",
    lambda w, u, v: vision_by_operator.spectral_norm(w, u, v, dim=0, power_iters=1),
    label="a start whose length overflows",
    w=normal(4, 3, 2),
    u=floats(1e30, 1.0, 2.0, 3.0),
    v=normal(6),
)
_add(
    "spectral_norm",
    lambda w, u, v: [
        vision_by_operator.spectral_norm(w, u, v, dim=1, power_iters=3),
        vision_by_operator.spectral_norm(w, u, v, dim=1, power_iters=0, eps=0.1),
    ],
    gradient=("w",),
    label="axis 1",
    w=normal(3, 4, 2),
    u=normal(4),
    v=normal(6),
)
