"""Cases of convolution, pooling and the normalisations of images."""

from __future__ import annotations

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from paddle_ipu.testing.cases import by_operator
from paddle_ipu.testing.operator_case import CaseTable, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_IMAGE = normal(2, 4, 6, 7)

_add(
    "conv2d",
    lambda x, w, b: [
        F.conv2d(x, w, b),
        F.conv2d(x, w, b, stride=2, padding=1),
        F.conv2d(x, w, padding=[1, 0, 2, 1], dilation=[1, 2]),
    ],
    gradient="x w b",
    x=_IMAGE,
    w=normal(3, 4, 3, 2),
    b=normal(3),
)
_add(
    "conv2d",
    lambda x, w: [
        F.conv2d(x, w, padding="SAME"),
        F.conv2d(x, w, padding="SAME", stride=2),
        F.conv2d(x, w, padding="VALID"),
    ],
    gradient="x w",
    label="named padding",
    x=_IMAGE,
    w=normal(3, 4, 3, 2),
)
_add(
    "conv2d",
    lambda x, w: F.conv2d(x, w, groups=2),
    gradient="x w",
    label="groups",
    x=_IMAGE,
    w=normal(6, 2, 3, 3),
)
_add(
    "conv2d",
    lambda x, w: F.conv1d(x, w, padding=1),
    gradient="x w",
    label="one axis",
    x=normal(2, 3, 8),
    w=normal(4, 3, 3),
)
_add(
    "depthwise_conv2d",
    lambda x, w: F.conv2d(x, w, padding=1, groups=4),
    gradient="x w",
    x=_IMAGE,
    w=normal(4, 1, 3, 3),
)
TABLE.refuse(
    "conv2d",
    lambda x, w: F.conv2d(x, w, data_format="NHWC"),
    "data_format must be NCHW",
    x=normal(1, 6, 6, 2),
    w=normal(3, 2, 3, 3),
)
_add(
    "pool2d",
    lambda x: [
        F.max_pool2d(x, 2, 2),
        F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
        F.max_pool2d(x, [2, 3], stride=1, padding=[1, 0, 1, 1]),
        F.max_pool2d(x, 3, stride=2, padding="SAME"),
        F.adaptive_max_pool2d(x, 1),
    ],
    gradient="x",
    x=_IMAGE,
)
_add(
    "pool2d",
    lambda x: [by_operator.global_pool2d(x, kind) for kind in ("max", "avg")],
    gradient="x",
    label="global",
    x=_IMAGE,
)
_add(
    "pool2d",
    lambda x: F.max_pool2d(x, 2, 2),
    gradient="x",
    label="ties",
    x=np.ones((1, 1, 4, 4), np.float32),
)
_add(
    "pool2d",
    lambda x: [
        F.avg_pool2d(x, 2, 2),
        F.avg_pool2d(x, 3, stride=2, padding=1),
        F.avg_pool2d(x, 3, stride=2, padding=1, exclusive=False),
        F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
        F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, [3, 7]),
    ],
    gradient="x",
    label="average",
    x=_IMAGE,
)
TABLE.refuse(
    "pool2d",
    lambda x: F.adaptive_avg_pool2d(x, 4),
    "does not divide the input's",
    x=normal(1, 2, 6, 6),
)
TABLE.refuse(
    "pool2d",
    lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True, exclusive=False),
    "exclusive=False with ceil_mode=True",
    x=normal(1, 2, 6, 6),
)
TABLE.refuse(
    "pool2d",
    lambda x: F.avg_pool2d(x, 2, data_format="NHWC"),
    "data_format must be NCHW",
    x=normal(1, 6, 6, 2),
)
_add(
    "max_pool2d_with_index",
    lambda x: [F.adaptive_max_pool2d(x, 1), F.adaptive_max_pool2d(x, [3, 7])],
    gradient="x",
    x=_IMAGE,
)
TABLE.refuse(
    "max_pool2d_with_index",
    lambda x: F.max_pool2d(x, 2, 2, return_mask=True),
    "its indices cannot be read",
    x=_IMAGE,
)
_add(
    "batch_norm",
    lambda x, m, v, w, b: [
        F.batch_norm(x, m, v, w, b),
        F.batch_norm(x, m, v, w, b, use_global_stats=True, epsilon=1e-3),
        F.batch_norm(x[:, :, 0, 0], m, v, w, b),
    ],
    x=_IMAGE,
    m=normal(4),
    v=uniform(4),
    w=uniform(4, seed=1),
    b=normal(4, seed=1),
)
TABLE.refuse(
    "batch_norm",
    lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True),
    "batch statistics are not supported yet",
    x=_IMAGE,
    m=normal(4),
    v=uniform(4),
    w=uniform(4),
    b=normal(4),
)
TABLE.refuse(
    "batch_norm",
    lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, data_format="NHWC"),
    "data_format must be NCHW",
    x=normal(1, 2, 2, 4),
    m=normal(4),
    v=uniform(4),
    w=uniform(4),
    b=normal(4),
)
_add(
    "group_norm",
    lambda x, y, w, b: [
        by_operator.group_norm(x, 2, w, b),
        by_operator.group_norm(y, 4),
    ],
    gradient="x w b",
    limitation="without a scale, the gradient is that of a scale of ones; Paddle's is another",
    x=_IMAGE,
    y=_IMAGE,
    w=uniform(4),
    b=normal(4),
)
_add(
    "instance_norm",
    lambda x, w, b: [F.instance_norm(x, weight=w, bias=b), F.instance_norm(x)],
    gradient="x w b",
    x=_IMAGE,
    w=uniform(4),
    b=normal(4),
)
