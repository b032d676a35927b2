"""Cases of shapes and indices at their bounds: nothing in a tensor, no axes, tensor operands."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import CaseTable, Since, bools, integers, normal

TABLE = CaseTable()
_add = TABLE.add

_CUBE = normal(2, 3, 4)
_NONE = normal(2, 0, 4)
_SCALAR = np.asarray(1.5, np.float32)
_EMPTY = "empty and without axes"
_TENSORS = "operands as tensors"

_add(
    "reshape",
    lambda x, s, b: [
        paddle.reshape(x, [0, 0, -1]),
        paddle.reshape(s, [1, -1]),
        paddle.reshape(x[0, 0, :1], []),
        paddle.reshape(b, [-1, 1]),
    ],
    gradient=("x", "s"),
    label="without axes",
    x=_CUBE,
    s=_SCALAR,
    b=bools(2, 2),
)
_add(
    "reshape",
    lambda e: [paddle.reshape(e, [4, 0]), paddle.reshape(e, [0, 0, 8]), e.reshape([4, 2, 0])],
    label="empty",
    since=Since("3.0", "the kernel gives another shape"),
    e=_NONE,
)
_add(
    "reshape",
    lambda x: [
        paddle.reshape(x, paddle.assign(np.asarray([4, -1], np.int32))),
        paddle.reshape(x, [paddle.full([1], 8, "int32"), 3]),
        paddle.reshape(x, [paddle.shape(x)[2], 0, -1]),
    ],
    label=_TENSORS,
    x=_CUBE,
)
_add(
    "transpose",
    lambda x, e, s: [
        paddle.transpose(x, [-1, 0, -2]),
        paddle.transpose(e, [2, 1, 0]),
        paddle.transpose(s, []),
    ],
    gradient=("x",),
    label=_EMPTY,
    x=_CUBE,
    e=_NONE,
    s=_SCALAR,
)
_add(
    "concat",
    lambda x, e: [
        paddle.concat([x, e, x], axis=1),
        paddle.concat([e, e], axis=paddle.full([1], -1, "int32")),
    ],
    gradient=("x",),
    label=_EMPTY,
    since=Since("3.1", "the function or its gradient refuses empty parts"),
    x=_CUBE,
    e=_NONE,
)
_add(
    "split",
    lambda x: [
        *paddle.split(x, [-1, 1], axis=-2),
        *paddle.split(x, [1, 1, 2], axis=2),
    ],
    gradient=("x",),
    label="an axis from the end",
    x=_CUBE,
)
_add(
    "split_with_num",
    lambda x: [
        *paddle.split(x, 3, axis=1),
        *paddle.split(x, 2, axis=-1),
        *paddle.split(x, 1, axis=0),
    ],
    gradient=("x",),
    label="one, and an axis from the end",
    x=_CUBE,
)
_add(
    "slice",
    lambda x: [
        paddle.slice(x, [1, 2], [-2, 0], [100, -1]),
        x[-1, -2, -3],
        x[:, :, 1:2][..., 0],
    ],
    gradient=("x",),
    label="bounds",
    x=_CUBE,
)
_add("slice", lambda x, e: [x[1:1], e[0], e[:, :, 1:]], label="empty", x=_CUBE, e=_NONE)
_add(
    "slice",
    lambda x: [
        paddle.slice(x, [0], paddle.full([1], 1, "int32"), paddle.full([1], 2, "int32")),
        paddle.slice(x, [2], [paddle.full([1], -3, "int32")], [paddle.shape(x)[2]]),
    ],
    label=_TENSORS,
    x=_CUBE,
)
_add(
    "strided_slice",
    lambda x, e: [
        x[:, ::-2],
        x[::-1, 5:0:-1],
        paddle.strided_slice(x, [2], [-1], [-5], [-2]),
        paddle.strided_slice(x, [0, 2], [0, 1], [2, 100], [1, 3]),
        e[:, :, ::3],
    ],
    gradient=("x",),
    label="bounds",
    x=_CUBE,
    e=_NONE,
)
_add(
    "strided_slice",
    lambda x: [x[0, ::2], x[:, ::-1, 1]],
    label="beside single elements",
    x=_CUBE,
)
_add(
    "squeeze",
    lambda x, s: [paddle.squeeze(x, [-3, 2]), paddle.squeeze(x, 1), paddle.squeeze(s)],
    gradient=("x",),
    label=_EMPTY,
    x=normal(1, 3, 1),
    s=_SCALAR,
)
_add(
    "unsqueeze",
    lambda x, s: [
        paddle.unsqueeze(x, paddle.assign(np.asarray([0, -1], np.int32))),
        paddle.unsqueeze(s, 0),
        paddle.unsqueeze(s, [-1, 0]),
    ],
    label=_TENSORS,
    x=normal(2, 3),
    s=_SCALAR,
)
_add(
    "stack",
    lambda s, t, i: [paddle.stack([s, t]), paddle.stack([i, i, i], axis=-2)],
    gradient=("s", "t"),
    label=_EMPTY,
    s=_SCALAR,
    t=np.asarray(-2.0, np.float32),
    i=integers(2, 2),
)
_add(
    "tile",
    lambda x, s, e: [
        paddle.tile(x, [1, 3, 1, 2]),
        paddle.tile(s, [2, 2]),
        paddle.tile(e, [2, 1, 3]),
        paddle.tile(x, paddle.assign(np.asarray([2, 1], np.int32))),
        paddle.tile(x, [paddle.full([1], 2, "int32"), 1]),
    ],
    label=_TENSORS,
    x=normal(2, 3),
    s=_SCALAR,
    e=_NONE,
)
_add(
    "expand",
    lambda x, s, b: [
        paddle.expand(s, [2, 3]),
        paddle.expand(x, paddle.assign(np.asarray([2, 3, 4], np.int32))),
        paddle.expand(x, [paddle.full([1], 2, "int32"), -1, 4]),
        paddle.expand(b, [3, 2]),
    ],
    label=_TENSORS,
    x=normal(3, 1),
    s=_SCALAR,
    b=bools(2),
)
_add(
    "flip",
    lambda x, e, i: [paddle.flip(x, [-1]), paddle.flip(e, [0]), paddle.flip(i, [1, 0])],
    gradient=("x",),
    label=_EMPTY,
    x=_CUBE,
    e=_NONE,
    i=integers(2, 3),
)
_add(
    "roll",
    lambda x, i: [
        paddle.roll(x, [-7, 2], axis=[-1, 1]),
        paddle.roll(x, -1),
        paddle.roll(i, [1], axis=[0]),
        paddle.roll(x, 100, axis=-2),
    ],
    gradient=("x",),
    label="far, and from the end",
    x=_CUBE,
    i=integers(4),
)
_add(
    "gather",
    lambda x, n, s, m: [
        paddle.gather(x, n, axis=paddle.full([1], 1, "int32")),
        paddle.gather(x, s),
        paddle.gather(x[0, 0], m),
    ],
    label=_TENSORS,
    x=_CUBE,
    n=np.asarray([2, 0]),
    s=np.asarray(1),
    m=np.asarray([3, 3, 0], np.int32),
)
_add(
    "gather_nd",
    lambda x, n, i: [paddle.gather_nd(x, n), paddle.gather_nd(i, n[:, :2]), x[n[:, 0], n[:, 1]]],
    gradient=("x",),
    label="whole numbers, and several indices",
    x=_CUBE,
    n=np.asarray([[1, 2, 3], [0, 0, 0]]),
    i=integers(2, 3),
)
_add(
    "gather_nd",
    lambda x, n: [paddle.gather_nd(x, n), x[:, n[:, 0]]],
    gradient=("x",),
    label="from the end",
    since=Since("3.0", "the kernel takes no index below zero"),
    x=_CUBE,
    n=np.asarray([[-1, -3], [0, 2]]),
)
_add(
    "take_along_axis",
    lambda x, n, m, i: [
        paddle.take_along_axis(x, n, -1),
        paddle.take_along_axis(x, m, 0),
        paddle.take_along_axis(i, n, 1),
    ],
    gradient=("x",),
    label="broadcast",
    x=normal(3, 4),
    n=integers(1, 2, high=4),
    m=integers(2, 1, high=3, dtype="int32"),
    i=integers(3, 4),
)
_add(
    "one_hot",
    lambda n, s: [
        F.one_hot(n, paddle.full([1], 5, "int32")),
        F.one_hot(s, 3),
        F.one_hot(n[:, :1], 4),
    ],
    label=_TENSORS,
    since=Since("3.0", "a number of classes in a tensor gives another shape"),
    n=integers(2, 3, high=4),
    s=np.asarray([2]),
)
_add(
    "index_select",
    lambda x, n: [paddle.index_select(x, n, axis=1), paddle.index_select(x, n, axis=-2)],
    gradient=("x",),
    label="the same twice",
    x=_CUBE,
    n=np.asarray([2, 2, 0]),
)
_add(
    "embedding",
    lambda x, w: [F.embedding(x, w, padding_idx=0), F.embedding(x[:, :1], w)],
    gradient=("w",),
    label="the same row often",
    x=np.asarray([[0, 1, 1], [1, 0, 2]], np.int32),
    w=normal(3, 2),
)
_add(
    "pad3d",
    lambda x: [
        F.pad(x, [1, 2], data_format="NCL"),
        F.pad(x, [1, 1], mode="reflect", data_format="NLC"),
    ],
    gradient=("x",),
    label="three axes",
    x=_CUBE,
)
_add(
    "tril",
    lambda x, i: [paddle.tril(x, -1), paddle.tril(x, 5), paddle.tril(i), paddle.tril(x, -9)],
    gradient=("x",),
    label="far diagonals",
    x=_CUBE,
    i=integers(3, 4),
)
_add(
    "triu",
    lambda x, i: [paddle.triu(x, 2), paddle.triu(x, 9), paddle.triu(i), paddle.triu(x, -9)],
    gradient=("x",),
    label="far diagonals",
    x=_CUBE,
    i=integers(3, 4),
)
_add(
    "flatten",
    lambda x, e, i: [paddle.flatten(x, -2, -1), paddle.flatten(e, 0, 1), paddle.flatten(i, 1, 1)],
    gradient=("x",),
    label=_EMPTY,
    x=_CUBE,
    e=_NONE,
    i=integers(2, 3),
)
_add(
    "unbind",
    lambda x, i: [*paddle.unbind(x, axis=1), *paddle.unbind(i)],
    gradient=("x",),
    label="whole numbers",
    x=_CUBE,
    i=integers(2, 3),
)
