"""Cases of shapes, layouts, joining, cutting, padding, creation and indexing."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases import by_operator, one_operator
from tests.operators.operator_case import CaseTable, Since, bools, floats, integers, normal

TABLE = CaseTable()
_add = TABLE.add

_CUBE = normal(2, 3, 4)
_WHOLE = integers(2, 3, 4, dtype="int32")

_add(
    "cast",
    lambda x, i, b: [
        paddle.cast(x, "int32"),
        paddle.cast(x, "bool"),
        paddle.cast(i, "float32") * 0.5,
        paddle.cast(i, "int64"),
        paddle.cast(b, "float32"),
        paddle.cast(x, "float64"),
    ],
    x=floats(-1.7, -0.0, 0.3, 2.9),
    i=integers(4, low=-4, dtype="int32"),
    b=bools(4),
)
_add(
    "assign",
    lambda x, i: [paddle.assign(x), paddle.assign(i)],
    gradient=("x",),
    x=_CUBE,
    i=integers(3),
)
_add("share_data", lambda x: x.detach(), x=_CUBE)
_add(
    "reshape",
    lambda x, i: [
        paddle.reshape(x, [6, 4]),
        paddle.reshape(x, [0, -1]),
        paddle.reshape(x, [-1]),
        paddle.reshape(x[0, 0, 0], [1, 1]),
        i.reshape([4, 6]),
    ],
    gradient=("x",),
    x=_CUBE,
    i=_WHOLE,
)
_add(
    "reshape",
    lambda x: paddle.reshape(x, [paddle.shape(x)[0], -1, paddle.numel(x) // 12]),
    label="computed shape",
    x=_CUBE,
)
_add(
    "flatten",
    lambda x, s: [paddle.flatten(x), paddle.flatten(x, 1), paddle.flatten(s)],
    gradient=("x",),
    x=_CUBE,
    s=np.asarray(2.0, np.float32),
)
_add(
    "squeeze",
    lambda x: [paddle.squeeze(x), paddle.squeeze(x, 0), paddle.squeeze(x, [1, -1])],
    gradient=("x",),
    x=normal(1, 3, 1),
)
_add(
    "unsqueeze",
    lambda x: [paddle.unsqueeze(x, 0), paddle.unsqueeze(x, [-1, 0]), paddle.unsqueeze(x, [1, 2])],
    gradient=("x",),
    x=normal(2, 3),
)
_add(
    "transpose",
    lambda x, i: [paddle.transpose(x, [2, 0, 1]), paddle.transpose(i, [1, 0, 2])],
    gradient=("x",),
    x=_CUBE,
    i=_WHOLE,
)
_add(
    "concat",
    lambda x, y, i: [paddle.concat([x, y, x], axis=-1), paddle.concat([i, i], axis=0)],
    gradient=("x", "y"),
    x=normal(2, 3),
    y=normal(2, 1, seed=1),
    i=integers(2, 2),
)
_add(
    "stack",
    lambda x, y: [paddle.stack([x, y]), paddle.stack([x, y], axis=-1), paddle.stack([x[0, 0]] * 2)],
    gradient=("x", "y"),
    x=normal(2, 3),
    y=normal(2, 3, seed=1),
)
_add(
    "split",
    lambda x: [*paddle.split(x, [1, 3], axis=2), *paddle.split(x, [1, -1], axis=1)],
    gradient=("x",),
    x=_CUBE,
)
_add("split_with_num", lambda x: paddle.split(x, 2, axis=-1), gradient=("x",), x=_CUBE)
_add("unstack", lambda x: paddle.unstack(x, axis=1), gradient=("x",), x=_CUBE)
_add("unbind", lambda x: paddle.unbind(x, axis=-1), gradient=("x",), x=_CUBE)
_add(
    "slice",
    lambda x, i: [
        x[:, 0],
        x[1, :, 1:3],
        x[..., -1],
        x[:, -2:],
        x[0, 0, 0],
        x[:, 0:100],
        i[:, 1],
    ],
    gradient=("x",),
    x=_CUBE,
    i=_WHOLE,
)
_add(
    "slice",
    lambda x, i: [x[i[0]], x[:, i[1]]],
    gradient=("x",),
    label="one index, a tensor without axes",
    x=normal(4, 5, 6),
    i=np.array([3, 0]),
)
_add(
    "slice",
    lambda x, i, j: [
        # Sums, whose shapes Paddle knows when it makes the gradients.
        (x[:, i : i + 2] ** 2).sum(1),
        (x[j : j + 3, :, i - 1 : i + 2] ** 2).sum([0, 2]),
        x[i - 1],
    ],
    gradient=("x",),
    label="constant lengths from computed starts",
    x=normal(4, 5, 6),
    i=np.array(3),
    j=np.array(0),
)
_add(
    "slice",
    lambda x, i, j: [
        # The start is written twice, as Python code writes it.
        (x[:, i[0] : i[0] + 2] ** 2).sum(1),
        (x[1, i[0] * 2 - 5 : i[0] * 2 - 3, j[0] : j[0] + 1] ** 2).sum(),
        (x[:, paddle.max(i) - 1 : paddle.max(i) + 1, 1:3] ** 2).sum(),
    ],
    gradient=("x",),
    label="a start that is an expression, beside an index and a slice",
    x=normal(4, 5, 6),
    i=np.array([3, 1]),
    j=np.array([2]),
)
TABLE.refuse(
    "slice",
    lambda x, i: paddle.slice(x, [0], [i[0]], [i[1]]),
    "the bounds of axis 0 are computed at run time, and its length does not follow",
    x=normal(4, 2),
    i=integers(2, dtype="int32"),
)
_add(
    "strided_slice",
    lambda x, i: [x[1, i[0] : i[0] + 2, ::2] * 2, x[::3, :, i[1] : i[1] + 3] * 2],
    label="beside computed starts",
    x=normal(4, 5, 6),
    i=np.array([3, 1]),
)
TABLE.refuse(
    "strided_slice",
    lambda x, i: x[i[0] : i[0] + 4 : 2],
    "the bounds of axis 0 are computed at run time, with a step of 2",
    x=normal(4, 2),
    i=integers(2, dtype="int32"),
)
TABLE.refuse(
    "slice",
    lambda x, i: paddle.slice(x, [0, 1], i, i + 1),
    "its starts are 2 numbers in one tensor that is computed at run time",
    x=normal(4, 2),
    i=integers(2, dtype="int32"),
)
_add(
    "strided_slice",
    lambda x: [x[:, ::2], x[:, :, ::-1], x[:, 2:0:-1, 1::2]],
    gradient=("x",),
    x=_CUBE,
)
_add(
    "expand",
    lambda x, i: [paddle.expand(x, [2, 3, 4]), paddle.expand(x, [5, -1, 4]), i.expand([2, 3])],
    gradient=("x",),
    x=normal(3, 1),
    i=integers(3),
)
_add("expand_as", lambda x, y: paddle.expand_as(x, y), gradient=("x",), x=normal(3, 1), y=_CUBE)
_add(
    "tile",
    lambda x: [paddle.tile(x, [2, 1]), paddle.tile(x, [3]), paddle.tile(x, [2, 1, 2])],
    gradient=("x",),
    x=normal(2, 3),
)
_add("meshgrid", lambda x, y: paddle.meshgrid(x, y), gradient=("x", "y"), x=normal(3), y=normal(2))
_add("flip", lambda x: [paddle.flip(x, [0]), paddle.flip(x, [-1, 1])], gradient=("x",), x=_CUBE)
_add(
    "roll",
    lambda x: [paddle.roll(x, 5), paddle.roll(x, [1, -1], axis=[0, 2]), paddle.roll(x, 0, axis=1)],
    gradient=("x",),
    x=_CUBE,
)
_add(
    "repeat_interleave",
    lambda x: [paddle.repeat_interleave(x, 2, axis=1), paddle.repeat_interleave(x, 3, axis=0)],
    gradient=("x",),
    x=_CUBE,
)
_add(
    "repeat_interleave",
    lambda x: paddle.repeat_interleave(x, 3, axis=-1),
    gradient=("x",),
    label="negative axis",
    since=Since("3.0", "the operator's shape inference corrupts memory"),
    x=_CUBE,
)
_add(
    "pad3d",
    lambda x: [
        F.pad(x, [1, 2, 0, 1]),
        F.pad(x, [1, 1, 1, 1], mode="reflect"),
        F.pad(x, [2, 0, 1, 1], mode="replicate"),
        F.pad(x, [1, 0, 0, 2], value=1.5, data_format="NHWC"),
    ],
    gradient=("x",),
    x=normal(1, 2, 3, 4),
)
_add(
    "pad3d",
    lambda x: [
        F.pad(x, [1, 2, 0, 1, 2, 1], data_format=layout, mode=mode)
        for layout in ("NCDHW", "NDHWC")
        for mode in ("constant", "reflect", "replicate", "circular")
    ],
    gradient=("x",),
    label="volumes",
    x=normal(1, 3, 3, 4, 3),
)
_add(
    "pad3d",
    lambda x, y: [
        F.pad(x, [1, 2], data_format="NCL", mode="circular"),
        F.pad(x, [1, 2], data_format="NLC", mode="reflect"),
        F.pad(y, [1, 0, 3, 1], mode="circular"),
        F.pad(y, [1, 0, 2, 1], mode="circular", data_format="NHWC"),
    ],
    gradient=("x", "y"),
    label="other ranks",
    x=normal(2, 3, 4),
    y=normal(1, 2, 3, 4),
)
_add(
    "pad",
    lambda x: [F.pad(x, [1, 0, 2, 1], value=0.5), F.pad(x, [0, 1, 1, 0])],
    gradient=("x",),
    x=normal(2, 3),
)
_add("tril", lambda x: [paddle.tril(x), paddle.tril(x, 1)], gradient=("x",), x=_CUBE)
_add("triu", lambda x: [paddle.triu(x), paddle.triu(x, -1)], gradient=("x",), x=_CUBE)
_add("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), gradient=("x",), x=normal(1, 8, 2, 3))
_add(
    "pixel_shuffle",
    lambda x: F.pixel_shuffle(x, 2, data_format="NHWC"),
    gradient=("x",),
    label="channels last",
    x=normal(1, 2, 3, 8),
)

# Creation.
_add(
    "full_like",
    lambda x, i: [
        paddle.full_like(x, 2.5),
        paddle.zeros_like(i),
        paddle.ones_like(x, dtype="int64"),
        paddle.full_like(i, 0.5, dtype="float32"),
    ],
    x=_CUBE,
    i=_WHOLE,
)
_add("full_with_tensor", lambda x: paddle.full(paddle.shape(x)[:2], 1.5) + x, x=normal(2, 3))
_add("shape", lambda x: [by_operator.shape(x), by_operator.shape(x)[1] + 1], x=_CUBE)
_add(
    "shape64",
    lambda x: [paddle.shape(x), paddle.shape(x)[1] + 1],
    since=Since("3.0", "paddle.shape writes the operator shape"),
    x=_CUBE,
)
_add("numel", lambda x: paddle.numel(x), x=_CUBE)
_add(
    "assign_value_",
    lambda x: [paddle.assign(np.asarray([[1.5, 2.0, -1.0]], np.float32)) + x, paddle.rank(x)],
    gradient=("x",),
    x=normal(2, 3),
)
_add(
    "arange",
    lambda x: [
        paddle.arange(4),
        paddle.arange(0.5, 3.0, 0.5),
        paddle.arange(10, 0, -3, dtype="int32"),
        paddle.arange(paddle.shape(x)[1]),
        paddle.arange(100),
    ],
    x=_CUBE,
)
_add("linspace", lambda x: [paddle.linspace(0, 1, 5) + x, paddle.linspace(3, 1, 4)], x=normal(5))
_add("eye", lambda x: [paddle.eye(3) + x, paddle.eye(2, 4, dtype="int64")], x=normal(3, 3))
_add(
    "sequence_mask",
    lambda n: [F.sequence_mask(n, 4), F.sequence_mask(n, 3, dtype="float32")],
    n=integers(2, 3),
)
TABLE.refuse(
    "flatten",
    lambda x: one_operator.call(
        "flatten",
        [x, 1, 2],
        {"X": x},
        {"Out": x.dtype, "XShape": x.dtype},
        legacy="flatten_contiguous_range",
        start_axis=1,
        stop_axis=2,
    )[:1],
    r"start_axis 1 and stop_axis 2 have to be axes of x, which is \[7\]",
    x=normal(7),
)
TABLE.refuse("sequence_mask", lambda n: F.sequence_mask(n), "maxlen must be given", n=integers(3))

# Indexing.
_add(
    "gather",
    lambda x, n, c: [
        paddle.gather(x, n),
        paddle.gather(x, n, axis=1),
        paddle.gather(x, c, axis=2),
    ],
    x=normal(3, 3, 4),
    n=np.asarray([2, 0, 2]),
    c=np.asarray([[1], [3]], np.int32),
)
_add(
    "gather",
    lambda x, n: paddle.gather(x, n),
    gradient=("x",),
    label="gradient",
    x=normal(3, 3, 4),
    n=np.asarray([2, 0, 2]),
)
_add(
    "gather",
    lambda x, n, c: [paddle.gather(x, n, axis=1), paddle.gather(x, c, axis=2)],
    gradient=("x",),
    label="gradient along other axes",
    since=Since("3.1", "the kernel adds gradients of other elements"),
    x=normal(3, 3, 4),
    n=np.asarray([2, 0, 2]),
    c=np.asarray([[1], [3]], np.int32),
)
_add(
    "gather",
    lambda x, c: paddle.gather(x, c, axis=-1),
    label="negative axis",
    since=Since("3.0", "the operator reads the axis as it is, outside of the shape"),
    x=normal(3, 3, 4),
    c=np.asarray([[1], [3]], np.int32),
)
_add(
    "index_select",
    lambda x, n, i: [paddle.index_select(x, n), paddle.index_select(x, i, axis=-1)],
    gradient=("x",),
    x=_CUBE,
    n=np.asarray([1, 0, 1]),
    i=np.asarray([3, 3], np.int32),
)
_add(
    "index_select",
    lambda x, n: paddle.index_select(x, n, axis=1),
    gradient=("x",),
    label="a column as index",
    x=_CUBE,
    n=np.asarray([[1], [0], [1]]),
)
_add(
    "gather_nd",
    lambda x, n, m: [paddle.gather_nd(x, n), x[m]],
    gradient=("x",),
    x=_CUBE,
    n=np.asarray([[1], [0], [1]]),
    m=np.asarray([0, 1, 1]),
)
_add(
    "gather_nd",
    lambda x, n, m: [paddle.gather_nd(x, n), paddle.gather_nd(x, m)],
    gradient=("x",),
    label="several axes",
    x=_CUBE,
    n=np.asarray([[1, 2], [0, 0], [1, 2]]),
    m=np.asarray([[[1, 2, 3], [0, 0, 0]]], np.int32),
)
_add(
    "take_along_axis",
    lambda x, n: [
        paddle.take_along_axis(x, n, 1),
        paddle.take_along_axis(x, n, 0, broadcast=False),
    ],
    gradient=("x",),
    x=normal(3, 4),
    n=integers(3, 2, high=3),
)
_add(
    "index_sample",
    lambda x, n: paddle.index_sample(x, n),
    gradient=("x",),
    x=normal(3, 4),
    n=integers(3, 2, high=4),
)
_add(
    "embedding",
    lambda x, w: [F.embedding(x, w), F.embedding(x, w, padding_idx=1)],
    gradient=("w",),
    x=np.asarray([[0, 1, 1], [4, 3, 1]]),
    w=normal(5, 3),
)
_add(
    "embedding",
    lambda x, w: F.embedding(x, w, padding_idx=-1),
    gradient=("w",),
    label="last row is padding",
    x=np.asarray([4, 0, 4, 2]),
    w=normal(5, 3),
)
_add(
    "one_hot",
    lambda n: [F.one_hot(n, 4), F.one_hot(n, 6)],
    n=integers(2, 3, high=4),
)
_add(
    "one_hot",
    lambda n: F.one_hot(n, 4),
    label="without axes",
    n=np.asarray(2),
)
