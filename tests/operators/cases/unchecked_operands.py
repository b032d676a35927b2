"""Uses that Paddle takes without a check: it computes them its own way, or reads beyond a tensor.

Random programs (`tests/differential`) came upon them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention
import paddle.vision.ops as V  # noqa: N812

from tests.operators.cases import by_operator
from tests.operators.cases.one_operator import call
from tests.operators.operator_case import CaseTable, Since, floats, normal, uniform

TABLE = CaseTable()
_add, _refuse = TABLE.add, TABLE.refuse

_PIR = Since("3.0", "the operator cannot be written by its phi name")


def _atan2(x: Any, y: Any) -> Any:
    # paddle.atan2 of Paddle 3.3 expands its operands.
    return call("atan2", [x, y], {"X1": x, "X2": y}, {"Out": "float32"})[0]


def _accuracy(x: Any, indices: Any, label: Any) -> list[Any]:
    return call(
        "accuracy",
        [x, indices, label],
        {"Out": x, "Indices": indices, "Label": label},
        {"Accuracy": "float32", "Correct": "int32", "Total": "int32"},
    )


def _cvm(x: Any, counts: Any) -> Any:
    return call("cvm", [x, counts, True], {"X": x, "CVM": counts}, {"Y": "float32"}, use_cvm=True)


_refuse("atan2", _atan2, r"x is \[1, 2\] and y \[2, 2\]\. Paddle's kernel does not",
        x=normal(1, 2), y=normal(2, 2))  # fmt: skip
_refuse("index_put", lambda x, v: paddle._C_ops.index_put(x, [paddle.greater_than(x, v)[:1]], v,
        False), r"the mask is \[1\], and x \[3\]: a mask has the size", since=_PIR,
        x=normal(3), v=normal(1))  # fmt: skip
_refuse("warprnnt", lambda x, n, t: F.rnnt_loss(x, n, t, t), r"label is \[1, 3\], and input"
        r" \[1, 2, 3, 4\]: \[N, U\] labels have", x=normal(1, 2, 3, 4),
        n=np.asarray([[1, 2, 3]], np.int32), t=np.asarray([2], np.int32))  # fmt: skip
_refuse("warprnnt", lambda x, n, t: F.rnnt_loss(x, n, t, t), r"label is \[2, 2\], and input",
        x=normal(1, 2, 3, 4), n=np.asarray([[1, 2], [3, 3]], np.int32),
        t=np.asarray([2], np.int32))  # fmt: skip
_refuse("warprnnt", lambda x, n, t: F.rnnt_loss(x, n, t, t), r"input_lengths is \[1\], for 2 seq",
        x=normal(2, 2, 3, 4), n=np.asarray([[1, 2], [3, 3]], np.int32),
        t=np.asarray([2], np.int32))  # fmt: skip
_refuse("swiglu", lambda x, y: paddle._C_ops.swiglu(x, y), r"x is \[0, 1\] and y \[0, 2\]: they",
        since=Since("3.1", "Paddle refuses it itself"), x=normal(0, 1), y=normal(0, 2))  # fmt: skip
_refuse("put_along_axis", lambda x, n: paddle._C_ops.put_along_axis(x, n, x, 0, "add", True),
        "arr is a number without axes", since=_PIR, x=normal(), n=np.asarray(0))  # fmt: skip
_refuse("transpose", lambda x: paddle._C_ops.transpose(x, []), r"perm \[\] has to name each of the"
        r" 2 axes once", since=_PIR, x=normal(2, 3))  # fmt: skip
_refuse("norm", lambda x: by_operator.norm(x, 1, 1e-10), r"there is no axis 1, x has 1 of them",
        x=normal(3))  # fmt: skip
_refuse("cvm", _cvm, r"x is \[2, 1\] and cvm \[2, 2\]; they have to be \[N, D\]",
        x=normal(2, 1), counts=normal(2, 2))  # fmt: skip
_refuse("cvm", _cvm, r"x is \[2, 4\] and cvm \[1, 2\]; they have to be \[N, D\]",
        x=normal(2, 4), counts=normal(1, 2))  # fmt: skip
_refuse("label_smooth", lambda x: paddle._C_ops.label_smooth(x, None, 0.1),
        "a label has to have an axis of classes", since=_PIR, x=normal())  # fmt: skip
_refuse("label_smooth", lambda x, p: paddle._C_ops.label_smooth(x, p, 0.1),
        r"prior_dist is \[1, 2\], for 3 classes", since=_PIR, x=normal(2, 3), p=normal(1, 2),
        )  # fmt: skip
_refuse("gather_tree", lambda x: paddle._C_ops.gather_tree(x, x), r"ids are \[\], and have to be"
        r" \[time, batch, beam\]", since=_PIR, x=np.asarray(0))  # fmt: skip
_refuse(
    "pool2d",
    lambda x: paddle._C_ops.pool2d(
        x, [7, 2], [-1, 1], [0, 0], False, True, "NCHW", "max", False, False, "EXPLICIT"
    ),
    r"strides \[-1, 1\]: windows move by 1 or more",
    since=_PIR,
    x=normal(1, 1, 4, 4),
)
_refuse("dropout",
        lambda x: paddle._C_ops.dropout(x, None, 3.7, False, "upscale_in_train", 0, True),
        r"dropout at .* is used in a way that PopART does not take: .* ratio value 3\.7",
        since=_PIR, x=normal(3))  # fmt: skip

_refuse("accuracy", _accuracy, r"x is \[3, 2\], indices \[1, 2\] and label \[3, 1\], expec",
        x=normal(3, 2), indices=np.asarray([[1, 1]]),
        label=np.asarray([[1], [1], [2]]))  # fmt: skip

_add(
    "dequantize_log",
    lambda x, d: call("dequantize_log", [x, d], {"X": x, "Dict": d}, {"Out": "float32"})[0],
    label="a table of two axes",
    x=np.asarray([[0, 1, 127], [-1, -128, -64]], np.int8),
    d=uniform(2, 64),
)
_add(
    "logit",
    lambda x: [paddle.logit(x, 0.6), paddle.logit(x, 1.0)],
    label="bounds in the other order",
    x=floats(0.05, 0.5, 0.7),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, y, z, w: [
        F.cross_entropy(x, y, soft_label=True, reduction="none"),
        F.cross_entropy(z, w, soft_label=True, axis=1, reduction="none"),
    ],
    gradient=("x", "z"),
    label="soft labels that do not sum to 1",
    x=normal(3, 5),
    y=uniform(3, 5, seed=1),
    z=normal(2, 4, 3, seed=2),
    w=uniform(2, 4, 3, low=-1.0, seed=3),
)
_refuse("polygamma", lambda x: paddle._C_ops.polygamma(x, -1), "n is -1; a derivative has",
        since=_PIR, x=normal(3))  # fmt: skip
_refuse("celu", lambda x: paddle._C_ops.celu(x, 0.0), "alpha is 0, and x is divided by it",
        since=_PIR, x=normal(3))  # fmt: skip
_refuse("slice", lambda x: paddle._C_ops.slice(x, [-2, -1], [0, 0], [1, 1], [1, 1], [0]),
        r"axes \[-2, -1\] of a tensor with 1\.", since=_PIR, x=normal(3))  # fmt: skip
_refuse(
    "nearest_interp",
    lambda x: paddle._C_ops.nearest_interp(
        x, None, None, None, "NCHW", -1, -1, -1, [0.5, 0.5, 0.5], "nearest", False, 1
    ),
    r"scales \[0\.5, 0\.5, 0\.5\] of 2 axes: one for each, or one for all",
    since=_PIR,
    x=normal(1, 1, 4, 4),
)
_refuse(
    "pool3d",
    lambda x: paddle._C_ops.pool3d(
        x, [2, 1, 3], [1, 1, 1], [0, 0, 0], False, True, "NCDHW", "avg", True, True, "EXPLICIT"
    ),
    "global_pooling and adaptive are both set, of which Paddle's kernel makes windows of",
    since=_PIR,
    x=normal(1, 1, 4, 4, 4),
)

_refuse(
    "lp_pool2d",
    lambda x: paddle._C_ops.lp_pool2d(
        x, [2, 2], [1, 1], [0, 0], False, True, "NCHW", "lp", False, True, "EXPLICIT", np.inf
    ),
    "adaptive windows of infinite order: Paddle's kernel takes kernel_size both for the number",
    since=_PIR,
    x=normal(1, 1, 4, 4),
)

_refuse(
    "index_put",
    lambda x, v, i: paddle._C_ops.index_put(x, [i, i, i], v, False),
    r"3 indices of x \[2, 3\]: one for each axis at most",
    since=_PIR,
    x=normal(2, 3),
    v=normal(1),
    i=np.zeros(1, np.int64),
)
_refuse(
    "fused_bias_residual_layernorm",
    lambda x, w: paddle._C_ops.fused_bias_residual_layernorm(
        x, None, None, w, None, 1e-5, 1.0, 2, -1.0, 0, 0.0, 0.0
    )[0],
    r"begin_norm_axis 2 is none of \[2, 3\], the shape of x",
    since=_PIR,
    x=normal(2, 3),
    w=normal(3),
)

_refuse("gather", lambda x, i: paddle._C_ops.gather(x, i, paddle.full([1], -3, "int32")),
        r"axis -3 of x \[2, 3\], which does not have it", since=_PIR, x=normal(2, 3),
        i=np.zeros(1, np.int64))  # fmt: skip
_refuse("gather_nd", paddle.gather_nd, r"x \[2, 0\] has no element that index \[1, 2\] could mean",
        since=_PIR, x=normal(2, 0), i=np.zeros((1, 2), np.int64))  # fmt: skip
_refuse(
    "yolo_loss",
    lambda x, b, n: V.yolo_loss(x, b, n, [3, 5, 8, 6], [-1, 1], 3, 0.5, 32),
    r"anchor_mask \[-1, 1\] of 2 anchors: Paddle's kernel reads beyond them",
    x=normal(1, 16, 4, 4),
    b=np.full((1, 2, 4), 0.5, np.float32),
    n=np.zeros((1, 2), np.int32),
)
_refuse(
    "yolo_loss",
    lambda x, b, n: V.yolo_loss(x, b, n, [3, 5, 8, 6], [0, 1], 3, 0.5, 32),
    r"gt_box is \[2, 2, 4\]: Paddle's kernel reads 2 boxes of each of 3 images",
    x=normal(3, 16, 4, 4),
    b=np.full((2, 2, 4), 0.5, np.float32),
    n=np.zeros((2, 2), np.int32),
)

_refuse("truncated_gaussian_random",
        lambda: paddle._C_ops.truncated_gaussian_random(
            [3], 0.0, 0.0, 0, -2.0, 2.0, paddle.float32, paddle.CPUPlace()),
        "std 0.0 and the bounds -2.0 and 2.0: std has to be above 0", since=_PIR)  # fmt: skip
_refuse("fill_diagonal", lambda x: paddle._C_ops.fill_diagonal(x, 1.0, 0, False),
        r"x is \[\]; a diagonal needs two axes", since=_PIR, x=normal())  # fmt: skip
_refuse("bipartite_match", lambda x: paddle._C_ops.bipartite_match(x, "bipartite", 0.5),
        r"distances \[1, 0\] have nothing to match", since=_PIR, x=normal(1, 0))  # fmt: skip
_refuse("lu_unpack", lambda x, y: paddle._C_ops.lu_unpack(x, y, True, True),
        r"x is \[2, 3\], and its pivots have to be \[2\], not \[3\]", since=_PIR,
        x=normal(2, 3), y=np.ones(3, np.int32))  # fmt: skip
_refuse("fractional_max_pool3d",
        lambda x: paddle._C_ops.fractional_max_pool3d(x, [2, 2, 2], [2, 2], 0.9, True),
        r"output_size \[2, 2, 2\] and kernel_size \[2, 2\] of 3 axes: one for each",
        since=_PIR, x=normal(1, 1, 3, 3, 3))  # fmt: skip

_add(
    "pool2d",
    lambda x: paddle._C_ops.pool2d(
        x, [2, 2], [0, 0], [0, 0], False, True, "NCHW", "avg", False, True, "EXPLICIT"
    ),
    label="adaptive, whose strides are not read",
    since=_PIR,
    x=normal(1, 1, 4, 5),
)
_add(
    "cross_entropy_with_softmax",
    lambda x, y: F.cross_entropy(x, y, soft_label=True, reduction="none"),
    gradient=("x",),
    label="a logit of minus infinity with a label of 0",
    x=floats([1.0, -np.inf, 0.5], [0.0, 1.0, 2.0]),
    y=floats([0.25, 0.0, 0.75], [0.5, 0.5, 0.0]),
)
_add(
    "accuracy",
    _accuracy,
    label="an index more than once",
    x=normal(3, 2),
    i=np.asarray([[1, 1], [0, 1], [0, 0]]),
    n=np.asarray([[1], [1], [2]]),
)
_add(
    "logit",
    lambda x: paddle.nansum(paddle.logit(x)),
    gradient=("x",),
    label="outside, of which nothing is summed",
    since=Since("3.1", "the kernel's gradient is 0 there"),
    limitation="with eps 0 the gradient outside [0, 1] is NaN; before Paddle 3.1 it is 0",
    x=floats(0.25, 1.5, -0.5),
)
_add(
    "yolo_box",
    lambda x, size: [*V.yolo_box(x, size, [5, 7, 9, 3], 3, 0.4, 8)],
    label="a length that overflows in an image of no pixels",
    x=normal(2, 16, 1, 1) * 200 + 100,
    size=np.asarray([[0, 0], [1, 1]], np.int32),
)
_add(
    "lu",
    lambda x: [paddle.linalg.lu(x, get_infos=True)[2]],
    label="singular",
    x=floats(
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 0.0, 0.0]],
        [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]],
    ),
)
