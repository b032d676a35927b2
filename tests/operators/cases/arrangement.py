"""Cases of diagonals, windows, channels and views."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases.one_operator import either
from tests.operators.operator_case import CaseTable, Since, integers, normal

TABLE = CaseTable()
_add = TABLE.add

_CUBE = normal(2, 3, 4)
_IMAGE = normal(2, 8, 4, 6)
_WHOLE = integers(3, 4, dtype="int32")

# Diagonals.
_add(
    "diag",
    lambda x, v, i: [
        paddle.diag(x),
        paddle.diag(x, 1),
        paddle.diag(x, -2),
        paddle.diag(v),
        paddle.diag(v, 2, 1.5),
        paddle.diag(v, -1),
        paddle.diag(i, 1),
    ],
    x=normal(3, 4),
    v=normal(3, seed=1),
    i=_WHOLE,
)
_add(
    "diag",
    lambda x, v: [paddle.diag(x, 1), paddle.diag(x, -2), paddle.diag(v, 2, 1.5), paddle.diag(v)],
    gradient=("x", "v"),
    label="gradient",
    since=Since("3.0", "the Python function stops the gradient"),
    x=normal(3, 4),
    v=normal(3, seed=1),
)
_add(
    "diag_embed",
    lambda x: [
        paddle.diag_embed(x),
        paddle.diag_embed(x, offset=1, dim1=0, dim2=2),
        paddle.diag_embed(x, offset=-2, dim1=-1, dim2=1),
        x * 2,
    ],
    gradient=("x",),
    x=_CUBE,
)
_add(
    "diag_embed",
    lambda v: paddle.diag_embed(v),
    label="vector",
    since=Since("3.0", "the Python function checks its axes against the vector's"),
    v=normal(3),
)
_add(
    "diagonal",
    lambda x, i: [
        paddle.diagonal(x),
        paddle.diagonal(x, offset=1, axis1=1, axis2=2),
        paddle.diagonal(x, offset=-1, axis1=2, axis2=0),
        paddle.diagonal(i, offset=-1, axis1=-1, axis2=-2),
    ],
    gradient=("x",),
    x=_CUBE,
    i=_WHOLE,
)


# Images.
_add(
    "unfold",
    lambda x: [
        F.unfold(x, [2, 3]),
        F.unfold(x, 2, strides=[2, 1], paddings=[1, 0], dilations=[1, 2]),
        F.unfold(x, [3, 2], strides=2, paddings=[1, 2, 0, 1]),
    ],
    gradient=("x",),
    x=normal(2, 3, 4, 6),
)
_add(
    "fold",
    lambda x, y: [
        F.fold(x, [4, 6], [2, 3], strides=[2, 3]),
        F.fold(y, [3, 6], [2, 2], strides=1, paddings=[1, 0]),
        F.fold(x, [5, 5], [3, 2], strides=[2, 2], dilations=[2, 3], paddings=1),
    ],
    gradient=("x", "y"),
    x=normal(2, 12, 4),
    y=normal(2, 8, 20, seed=1),
)
_add(
    "pixel_unshuffle",
    lambda x: [
        F.pixel_unshuffle(x, 2),
        F.pixel_unshuffle(x, 2, data_format="NHWC"),
    ],
    gradient=("x",),
    x=normal(2, 4, 4, 6),
)
_add(
    "channel_shuffle",
    lambda x: [F.channel_shuffle(x, 4), F.channel_shuffle(x, 3, data_format="NHWC")],
    gradient=("x",),
    x=_IMAGE,
)


def _shuffle_channel(x: Any, group: int) -> Any:
    return either(
        lambda: paddle._C_ops.shuffle_channel(x, group),
        "shuffle_channel",
        {"X": x},
        x.dtype,
        group=group,
    )


_add("shuffle_channel", lambda x: _shuffle_channel(x, 3), gradient=("x",), x=normal(2, 9, 2, 3))
_add("shuffle_channel", lambda x: _shuffle_channel(x, 2), label="other sizes", x=_IMAGE)
_add(
    "shuffle_channel",
    lambda x: _shuffle_channel(x, 2),
    gradient=("x",),
    label="gradient of other sizes",
    limitation="Paddle's own gradient shuffles forward again",
    oracle=lambda x: x.reshape(1, 2, 3, 2, 1).transpose(0, 2, 1, 3, 4).reshape(1, 6, 2, 1),
    x=normal(1, 6, 2, 1),
)
_add(
    "temporal_shift",
    lambda x: [
        F.temporal_shift(x, 2),
        F.temporal_shift(x, 4, 0.125),
        F.temporal_shift(x, 2, 0.4),
        F.temporal_shift(x, 4, 0.2, data_format="NHWC"),
    ],
    gradient=("x",),
    x=normal(4, 8, 2, 6),
)

# Signals.
_add(
    "frame",
    lambda x, v: [
        paddle.signal.frame(x, 3, 2),
        paddle.signal.frame(x, 2, 1, axis=0),
        paddle.signal.frame(v, 4, 3),
        paddle.signal.frame(v, 4, 3, axis=0),
    ],
    gradient=("x", "v"),
    x=normal(4, 3, 7),
    v=normal(10),
)
_add(
    "overlap_add",
    lambda x, m: [
        paddle.signal.overlap_add(x, 2),
        paddle.signal.overlap_add(x, 1, axis=0),
        paddle.signal.overlap_add(m, 3),
        paddle.signal.overlap_add(m, 3, axis=0),
    ],
    gradient=("x", "m"),
    x=normal(4, 3, 7),
    m=normal(4, 3),
)
for _dtype in ("int32", "int64"):
    _add(
        "overlap_add",
        lambda x: [paddle.signal.overlap_add(x, 2), paddle.signal.overlap_add(x, 1, axis=0)],
        label=_dtype,
        x=integers(4, 3, 7, low=-5, dtype=_dtype),
    )
    _add(
        "frame",
        lambda x: [paddle.signal.frame(x, 3, 2), paddle.signal.frame(x, 2, 1, axis=0)],
        label=_dtype,
        x=integers(4, 3, 7, low=-5, dtype=_dtype),
    )

# Lists of tensors.
_add(
    "broadcast_tensors",
    lambda x, y, s: paddle.broadcast_tensors([x, y, s]),
    gradient=("x", "y", "s"),
    x=normal(3, 1),
    y=normal(2, 1, 4),
    s=normal(),
)
_add(
    "broadcast_tensors",
    lambda x, y: paddle.broadcast_tensors([x, y]),
    label="whole numbers",
    x=integers(3, 1),
    y=integers(2, 1, 4),
)


_add(
    "multiplex",
    lambda x, y, i: paddle.multiplex([x, y, x * 2], i),
    gradient=("x", "y"),
    x=normal(4, 3),
    y=normal(4, 3, seed=1),
    i=np.asarray([[2], [0], [1], [1]], np.int32),
)
_add(
    "repeat_interleave_with_tensor_index",
    lambda x: paddle.repeat_interleave(x, paddle.assign(np.asarray([2, 0, 3])), 1).reshape(
        [2, 5, 4]
    ),
    gradient=("x",),
    label="gradient",
    x=_CUBE,
)
TABLE.refuse(
    "repeat_interleave_with_tensor_index",
    lambda x, n: paddle.repeat_interleave(x, n, 1),
    "'repeats' must be a constant of the program",
    x=_CUBE,
    n=np.asarray([2, 0, 3]),
)
_add(
    "repeat_interleave_with_tensor_index",
    lambda x: [
        paddle.repeat_interleave(x, paddle.assign(np.asarray([2, 0, 3])), 1),
        paddle.repeat_interleave(x, paddle.assign(np.asarray([1, 2], np.int32)), 0),
    ],
    x=_CUBE,
)


def _trans_layout(x: Any, perm: list[int]) -> Any:
    return paddle._C_ops.trans_layout(x, perm)


_add(
    "trans_layout",
    lambda x: _trans_layout(x, [2, 0, 1]),
    gradient=("x",),
    since=Since("3.0", "there is no such operator"),
    x=_CUBE,
)
_add(
    "crop",
    lambda x, i: [
        paddle.crop(x, [2, 1, 2], [0, 1, 2]),
        paddle.crop(x, [1, 3, 2], [1, 0, 0]),
        paddle.crop(i, [2, 2]),
    ],
    gradient=("x",),
    x=_CUBE,
    i=_WHOLE,
)
_add(
    "crop",
    lambda x: [paddle.crop(x, [-1, 2, -1], [1, 0, 3]), paddle.crop(x, paddle.shape(x) - 1)],
    label="to the end, and a computed shape",
    x=_CUBE,
)


def _reverse(x: Any, axis: list[int]) -> Any:
    return either(lambda: paddle._C_ops.reverse(x, axis), "reverse", {"X": x}, x.dtype, axis=axis)


_add(
    "reverse",
    lambda x, i: [_reverse(x, [0]), _reverse(x, [-1, 1]), _reverse(i, [1])],
    gradient=("x",),
    x=_CUBE,
    i=_WHOLE,
)
_add(
    "npu_identity",
    lambda x: either(
        lambda: paddle._C_ops.npu_identity(x, 2), "npu_identity", {"x": x}, x.dtype, "out", format=2
    ),
    x=_CUBE,
)
