"""Cases of pooling."""

from __future__ import annotations

import math

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases import vision_by_operator
from tests.operators.operator_case import CaseTable, Since, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_IMAGE = normal(2, 3, 6, 7)
_VOLUME = normal(2, 2, 4, 5, 6)
_STEPS = np.floor(normal(1, 2, 6, 7) * 2)

_add(
    "pool2d",
    lambda x: [
        F.max_pool2d(x, 2, 2),
        F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
        F.max_pool2d(x, [2, 3], stride=1, padding=[1, 0, 1, 1]),
        F.max_pool2d(x, 3, stride=2, padding="SAME"),
        F.max_pool2d(x, 3, stride=2, padding="VALID"),
    ],
    gradient=("x",),
    x=_IMAGE,
)
_add(
    "pool2d",
    lambda x: [
        vision_by_operator.pool2d(x, 1, kind, global_pooling=True) for kind in ("max", "avg")
    ],
    gradient=("x",),
    label="global",
    x=_IMAGE,
)
_add(
    "pool2d",
    lambda x, y: [
        F.max_pool2d(x, 2, 2),
        F.max_pool2d(y, 3, stride=1, padding=1),
    ],
    gradient=("x", "y"),
    label="ties",
    x=np.ones((1, 1, 4, 4), np.float32),
    y=_STEPS,
)
_add(
    "pool2d",
    lambda x: [
        F.avg_pool2d(x, 2, 2),
        F.avg_pool2d(x, 3, stride=2, padding=1),
        F.avg_pool2d(x, 3, stride=2, padding=1, exclusive=False),
        F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
        F.avg_pool2d(x, 3, stride=2, ceil_mode=True, exclusive=False),
        F.avg_pool2d(x, 3, stride=2, padding="SAME"),
        F.avg_pool2d(x, 3, padding=[1, 0, 0, 1], exclusive=False, divisor_override=5),
        F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, [3, 7]),
        F.adaptive_avg_pool2d(x, [4, None]),
    ],
    gradient=("x",),
    label="average",
    x=_IMAGE,
)
_add(
    "pool2d",
    lambda x: [
        F.max_pool2d(x, 3, stride=2, padding=1, data_format="NHWC"),
        F.avg_pool2d(x, 3, stride=2, padding=1, data_format="NHWC"),
        F.adaptive_avg_pool2d(x, [4, 5], data_format="NHWC"),
    ],
    gradient=("x",),
    label="channels last",
    x=normal(2, 6, 7, 3),
)
_add(
    "pool2d",
    lambda x: [
        F.avg_pool1d(x, 3, 2, padding=1),
        F.max_pool1d(x, 2, 2, ceil_mode=True),
        F.adaptive_avg_pool1d(x, 4),
    ],
    gradient=("x",),
    label="one axis",
    x=normal(2, 3, 7),
)
_add(
    "pool3d",
    lambda x: [
        F.max_pool3d(x, 2, 2),
        F.max_pool3d(x, [2, 3, 2], stride=[1, 2, 1], padding=[1, 0, 1, 1, 0, 1], ceil_mode=True),
        F.max_pool3d(x, 3, stride=2, padding="SAME"),
        F.avg_pool3d(x, 2, stride=1),
        F.avg_pool3d(x, 3, stride=2, padding=1, exclusive=False),
        F.avg_pool3d(x, 3, stride=2, padding=1, exclusive=False, ceil_mode=True),
        F.avg_pool3d(x, [1, 3, 2], padding=[0, 1, 1]),
        F.adaptive_avg_pool3d(x, [2, 1, 3]),
        F.adaptive_avg_pool3d(x, [3, 5, 4]),
    ],
    gradient=("x",),
    x=_VOLUME,
)
_add(
    "pool3d",
    lambda x: [
        vision_by_operator.pool3d(x, 1, kind, global_pooling=True) for kind in ("max", "avg")
    ],
    gradient=("x",),
    label="global",
    x=_VOLUME,
)
_add(
    "pool3d",
    lambda x: [
        F.max_pool3d(x, 2, 2, data_format="NDHWC"),
        F.avg_pool3d(x, 3, stride=2, padding=1, data_format="NDHWC"),
        F.adaptive_avg_pool3d(x, 3, data_format="NDHWC"),
    ],
    gradient=("x",),
    label="channels last",
    x=normal(2, 4, 5, 6, 2),
)
_add(
    "pool3d",
    lambda x: F.local_response_norm(x, 3, alpha=0.5, beta=0.6, k=2.0),
    gradient=("x",),
    label="local response normalisation",
    x=_IMAGE,
)
TABLE.refuse(
    "pool2d",
    lambda x: vision_by_operator.pool2d(x, 2, "max", adaptive=True),
    "kernel ignores adaptive",
    x=_IMAGE,
)
TABLE.refuse(
    "pool2d",
    lambda x: vision_by_operator.pool2d(x, 0, "max"),
    r"kernel_size \[0, 0\]: windows have 1 element or more",
    x=_IMAGE,
)
_add(
    "max_pool2d_with_index",
    lambda x: [
        F.adaptive_max_pool2d(x, 1),
        F.adaptive_max_pool2d(x, [3, 7]),
        F.adaptive_max_pool2d(x, 4),
    ],
    gradient=("x",),
    x=_IMAGE,
)
_add(
    "max_pool2d_with_index",
    lambda x, y: [
        *F.max_pool2d(x, 2, 2, return_mask=True),
        *F.max_pool2d(x, [3, 2], stride=[2, 1], padding=1, return_mask=True),
        *F.max_pool2d(y, 3, stride=1, padding=1, return_mask=True),
        *F.adaptive_max_pool2d(y, [4, 3], return_mask=True),
    ],
    gradient=("x", "y"),
    label="indices",
    x=_IMAGE,
    y=_STEPS,
)
_add(
    "max_pool2d_with_index",
    lambda x: [
        *F.max_pool1d(x, 3, 2, padding=1, return_mask=True),
        *F.adaptive_max_pool1d(x, 4, return_mask=True),
    ],
    gradient=("x",),
    label="one axis",
    x=normal(2, 3, 7),
)
_add(
    "max_pool3d_with_index",
    lambda x: [F.adaptive_max_pool3d(x, [2, 5, 3]), F.adaptive_max_pool3d(x, 1)],
    gradient=("x",),
    x=_VOLUME,
)
_add(
    "max_pool3d_with_index",
    lambda x, y: [
        *F.max_pool3d(x, 2, 2, return_mask=True),
        *F.max_pool3d(y, [3, 2, 3], stride=[2, 1, 2], padding=1, return_mask=True),
        *F.adaptive_max_pool3d(y, [3, 2, 4], return_mask=True),
    ],
    gradient=("x", "y"),
    label="indices",
    x=_VOLUME,
    y=np.floor(normal(1, 2, 4, 5, 6) * 2),
)
_add(
    "lp_pool2d",
    lambda x: [
        F.lp_pool2d(x, 2.0, 2),
        F.lp_pool2d(x, 3.0, [3, 2], stride=2, padding=1),
        F.lp_pool2d(x, 2.0, 3, stride=2, ceil_mode=True),
        F.lp_pool1d(x[0], 4.0, 2),
    ],
    gradient=("x",),
    since=Since("3.0", "there is no such operator"),
    x=uniform(2, 3, 6, 7),
)
_add(
    "lp_pool2d",
    lambda x: [
        F.lp_pool2d(x, math.inf, [3, 2], stride=2, padding=1, ceil_mode=True),
        F.lp_pool2d(x, math.inf, 2, data_format="NHWC"),
    ],
    gradient=("x",),
    label="of infinite order",
    since=Since("3.0", "there is no such operator"),
    x=normal(2, 3, 6, 4),
)
_add(
    "lp_pool2d",
    lambda x: F.lp_pool2d(x, 2.0, 2, data_format="NHWC"),
    gradient=("x",),
    label="channels last",
    since=Since("3.0", "there is no such operator"),
    x=uniform(2, 6, 7, 3),
)
_add(
    "fractional_max_pool2d",
    lambda x: [
        F.fractional_max_pool2d(x, [3, 4], random_u=0.3),
        *F.fractional_max_pool2d(x, 3, kernel_size=2, random_u=0.7, return_mask=True),
    ],
    gradient=("x",),
    since=Since("3.0", "there is no such operator"),
    x=_IMAGE,
)
_add(
    "fractional_max_pool3d",
    lambda x: [
        F.fractional_max_pool3d(x, [3, 2, 4], random_u=0.3),
        *F.fractional_max_pool3d(x, 2, kernel_size=2, random_u=0.9, return_mask=True),
    ],
    gradient=("x",),
    since=Since("3.0", "there is no such operator"),
    x=_VOLUME,
)
TABLE.refuse(
    "fractional_max_pool2d",
    lambda x: vision_by_operator.fractional_max_pool2d(x, [3, 3]),
    "random_u 0 draws the windows anew",
    since=Since("3.0", "there is no such operator"),
    x=_IMAGE,
)
TABLE.refuse(
    "fractional_max_pool2d",
    lambda x: vision_by_operator.fractional_max_pool2d(x, [3, 3], math.inf),
    "random_u is inf; give it a number between 0 and 1",
    since=Since("3.0", "there is no such operator"),
    x=_IMAGE,
)
