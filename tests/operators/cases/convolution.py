"""Cases of convolution and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import Array, CaseTable, Since, normal

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
    gradient=("x", "w", "b"),
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
    gradient=("x", "w"),
    label="named padding",
    x=_IMAGE,
    w=normal(3, 4, 3, 2),
)
_add(
    "conv2d",
    lambda x, w: F.conv2d(x, w, groups=2),
    gradient=("x", "w"),
    label="groups",
    x=_IMAGE,
    w=normal(6, 2, 3, 3),
)
_add(
    "conv2d",
    lambda x, w, b: [
        F.conv2d(x, w, b, data_format="NHWC"),
        F.conv2d(x, w, stride=[2, 1], padding=[1, 0, 2, 1], data_format="NHWC"),
        F.conv2d(x, w, padding="SAME", dilation=2, data_format="NHWC"),
    ],
    gradient=("x", "w", "b"),
    label="channels last",
    x=normal(2, 6, 7, 4),
    w=normal(3, 4, 3, 2),
    b=normal(3),
)
_add(
    "conv2d",
    lambda x, w, b: [
        F.conv1d(x, w, padding=1),
        F.conv1d(x, w, b, stride=2, padding="SAME", dilation=2),
    ],
    gradient=("x", "w", "b"),
    label="one axis",
    x=normal(2, 3, 8),
    w=normal(4, 3, 3),
    b=normal(4),
)
_add(
    "conv2d",
    lambda x, w: F.conv1d(x, w, padding=1, groups=2, data_format="NLC"),
    gradient=("x", "w"),
    label="one axis, channels last",
    x=normal(2, 8, 4),
    w=normal(4, 2, 3),
)
_add(
    "depthwise_conv2d",
    lambda x, w: [
        F.conv2d(x, w, padding=1, groups=4),
        F.conv2d(x, w, stride=2, padding="SAME", dilation=2, groups=4),
    ],
    gradient=("x", "w"),
    x=_IMAGE,
    w=normal(8, 1, 3, 3),
)
_add(
    "depthwise_conv2d",
    lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=4, data_format="NHWC"),
    gradient=("x", "w"),
    label="channels last",
    x=normal(2, 6, 7, 4),
    w=normal(4, 1, 3, 3),
)
_add(
    "conv3d",
    lambda x, w, b: [
        F.conv3d(x, w, b),
        F.conv3d(x, w, stride=[1, 2, 1], padding=[1, 0, 1, 1, 0, 1], dilation=[1, 1, 2]),
        F.conv3d(x, w, padding="SAME", stride=2),
    ],
    gradient=("x", "w", "b"),
    x=normal(2, 2, 4, 5, 6),
    w=normal(3, 2, 2, 3, 2),
    b=normal(3),
)
_add(
    "conv3d",
    lambda x, w: F.conv3d(x, w, padding=1, groups=2, data_format="NDHWC"),
    gradient=("x", "w"),
    label="channels last and groups",
    x=normal(1, 4, 3, 5, 4),
    w=normal(4, 2, 3, 2, 2),
)
_add(
    "conv2d_transpose",
    lambda x, w, b: [
        F.conv2d_transpose(x, w, b),
        F.conv2d_transpose(x, w, stride=2, padding=1, output_padding=1),
        F.conv2d_transpose(x, w, stride=[3, 2], padding=[1, 0, 2, 1], dilation=[1, 2]),
        F.conv2d_transpose(x, w, stride=2, output_size=[10, 11]),
    ],
    gradient=("x", "w", "b"),
    x=normal(2, 4, 4, 5),
    w=normal(4, 3, 3, 2),
    b=normal(3),
)
_add(
    "conv2d_transpose",
    lambda x, w: [
        F.conv2d_transpose(x, w, padding="SAME", stride=2),
        F.conv2d_transpose(x, w, padding="VALID", groups=2),
    ],
    gradient=("x", "w"),
    label="named padding and groups",
    x=normal(2, 4, 4, 5),
    w=normal(4, 3, 3, 3),
)
_add(
    "conv2d_transpose",
    lambda x, w: [
        F.conv2d_transpose(x, w, stride=2, padding=1),
        F.conv2d_transpose(
            x.transpose([0, 1, 3, 2]), w.transpose([0, 1, 3, 2]), stride=2, padding=1
        ),
    ],
    gradient=("x", "w"),
    label="kernels that reach beyond a small image",
    x=normal(2, 2, 1, 5),
    w=normal(2, 3, 3, 2, seed=1),
)
_add(
    "conv2d",
    lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    gradient=("x", "w"),
    label="kernels that reach beyond a small image",
    x=normal(2, 2, 1, 6),
    w=normal(3, 2, 3, 2, seed=1),
)
_add(
    "conv2d_transpose",
    lambda x, w, b: F.conv2d_transpose(x, w, b, stride=2, padding=1, data_format="NHWC"),
    gradient=("x", "w", "b"),
    label="channels last",
    x=normal(2, 4, 5, 4),
    w=normal(4, 3, 3, 2),
    b=normal(3),
)
_add(
    "conv2d_transpose",
    lambda x, w, b: [
        F.conv1d_transpose(x, w, b, stride=2, output_padding=1),
        F.conv1d_transpose(x, w, stride=2, padding=1, output_size=10),
    ],
    gradient=("x", "w", "b"),
    label="one axis",
    x=normal(2, 4, 5),
    w=normal(4, 3, 3),
    b=normal(3),
)
_add(
    "depthwise_conv2d_transpose",
    lambda x, w: [
        F.conv2d_transpose(x, w, stride=2, padding=1, groups=4),
        F.conv2d_transpose(x, w, stride=2, output_size=[10, 10], dilation=[1, 2], groups=4),
    ],
    gradient=("x", "w"),
    x=normal(2, 4, 4, 4),
    w=normal(4, 1, 3, 2),
)
_add(
    "depthwise_conv2d_transpose",
    lambda x, w: F.conv2d_transpose(x, w, stride=2, groups=4, data_format="NHWC"),
    gradient=("x", "w"),
    label="channels last",
    x=normal(2, 4, 5, 4),
    w=normal(4, 1, 3, 3),
)
_add(
    "conv3d_transpose",
    lambda x, w, b: [
        F.conv3d_transpose(x, w, b),
        F.conv3d_transpose(x, w, stride=2, padding=[1, 0, 1], output_padding=[1, 0, 1]),
        F.conv3d_transpose(x, w, stride=2, padding="SAME"),
        F.conv3d_transpose(x, w, padding=[1, 0, 0, 1, 0, 0], dilation=[1, 2, 1]),
        F.conv3d_transpose(x, w, stride=2, output_size=[8, 8, 7]),
    ],
    gradient=("x", "w", "b"),
    x=normal(1, 2, 3, 4, 3),
    w=normal(2, 3, 3, 2, 2),
    b=normal(3),
)
_add(
    "conv3d_transpose",
    lambda x, w: F.conv3d_transpose(x, w, stride=2, groups=2, data_format="NDHWC"),
    gradient=("x", "w"),
    label="channels last and groups",
    x=normal(1, 3, 2, 3, 4),
    w=normal(4, 2, 3, 2, 2),
)


def _transposed_biased(x: Array, w: Array, b: Array) -> Array:
    """A transposed convolution with stride 2, and a number for each channel."""
    rows, columns = (2 * (size - 1) + w.shape[2] for size in x.shape[2:])
    out = np.zeros((x.shape[0], w.shape[1], rows, columns), x.dtype)
    for i, j in np.ndindex(*x.shape[2:]):
        tile = np.einsum("nc,cmkl->nmkl", x[:, :, i, j], w)
        out[:, :, 2 * i : 2 * i + w.shape[2], 2 * j : 2 * j + w.shape[3]] += tile
    return out + b[:, None, None]


def _biased_ways(x: Array, w: Array, b: Array) -> list[Array]:
    plain = _transposed_biased(x, w, b)
    small = np.einsum("nchw,cmkl->nmhkwl", x[:, :2], w[:2])
    apart = np.zeros((2, 3, 6, 6), x.dtype)
    for i, j, k, m in np.ndindex(4, 4, 3, 3):
        apart[:, :, i + k, j + m] += small[:, :, i, k, j, m]
    return [
        plain,
        plain[:, :, 2:-2, 2:-2],
        plain.transpose(0, 2, 3, 1),
        plain,
        plain,
        apart + b[:, None, None],
        plain,
    ]


def _with_bias(x: Any, w: Any, b: Any, layout: str, **options: Any) -> Any:
    """``paddle._C_ops.conv2d_transpose_bias``, whose kernel is oneDNN's."""
    return paddle._C_ops.conv2d_transpose_bias(
        x,
        w,
        b,
        options.get("strides", [2, 2]),
        options.get("paddings", [0, 0]),
        options.get("output_padding", []),
        options.get("output_size", []),
        options.get("padding_algorithm", "EXPLICIT"),
        options.get("groups", 1),
        options.get("dilations", [1, 1]),
        layout,
    )


_add(
    "conv2d_transpose_bias",
    lambda x, w, b: [
        _with_bias(x, w, b, "NCHW"),
        _with_bias(x, w, b, "NCHW", paddings=[1, 1])[:, :, 1:-1, 1:-1],
        _with_bias(paddle.transpose(x, [0, 2, 3, 1]), w, b, "NHWC", padding_algorithm="VALID"),
        _with_bias(x, w, b, "NCHW", output_size=[10, 10])[:, :, :9, :9],
        _with_bias(x, w, b, "NCHW", output_padding=[1, 1])[:, :, :9, :9],
        _with_bias(x[:, :2], w[:2], b, "NCHW", dilations=[2, 2])[:, :, ::2, ::2],
        _with_bias(
            paddle.concat([x, x], 1), paddle.concat([w, w]), paddle.concat([b, b]), "NCHW", groups=2
        )[:, 3:],
    ],
    since=Since("3.0", "the operator is one of oneDNN's passes"),
    oracle=_biased_ways,
    x=normal(2, 4, 4, 4),
    w=normal(4, 3, 3, 3, seed=1),
    b=normal(3, seed=2),
)
TABLE.refuse(
    "depthwise_conv2d",
    lambda x, w: paddle._C_ops.depthwise_conv2d(x, w, [3, 3], [0, 0], "EXPLICIT", 2, [1], "NCHW"),
    r"depthwise_conv2d at .*: strides \[3, 3\] and dilations \[1\] of 2 axes: give one for each",
    since=Since("3.0", "the operator has no function of its own"),
    x=normal(1, 2, 2, 2),
    w=normal(2, 1, 1, 1),
)
