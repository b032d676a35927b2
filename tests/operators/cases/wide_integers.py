"""Cases of int64 beyond 32 bits, and of conversions to integers that do not fit."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import CaseTable, Since, floats, normal

TABLE = CaseTable()
_BEYOND = "64 bits"
_FAR = 2**40

_X = np.asarray([[1, -3, _FAR], [7, -_FAR, 12345678901]])
_Y = np.asarray([[_FAR, 5, 3], [-7, 2**33, -98765432101]])
_ENDS = np.asarray([[2**63 - 1, -(2**63)], [2**31, -(2**31) - 1]])

_PAIRS = (
    ("add", lambda x, y: x + y),
    ("subtract", lambda x, y: x - y),
    ("multiply", lambda x, y: x * y),
    ("divide", lambda x, y: x / y),
    ("floor_divide", lambda x, y: x // y),
    ("remainder", lambda x, y: x % y),
    ("maximum", lambda x, y: [paddle.maximum(x, y), paddle.minimum(x, y)]),
    ("less_than", lambda x, y: [x < y, x > y, x <= y, x >= y, x == y, x != y]),
    ("where", lambda x, y: paddle.where(x > y, x, y)),
    ("concat", lambda x, y: [paddle.concat([x, y]), paddle.stack([x, y])]),
    ("bitwise_and", lambda x, y: [x & y, x | y, x ^ y, ~x]),
    ("kron", paddle.kron),
    ("equal_all", lambda x, y: [paddle.equal_all(x, y), paddle.equal_all(x, x)]),
    ("add_n", lambda x, y: paddle.add_n([x, y, x])),
    ("dot", lambda x, y: paddle.dot(x[0], y[0])),
    ("index_add", lambda x, y: paddle.index_add(x, paddle.assign(np.asarray([1, 1, 0])), 1, y)),
    ("scatter", lambda x, y: paddle.scatter(x, paddle.assign(np.asarray([1, 1])), y, False)),
    (
        "scatter_nd_add",
        lambda x, y: paddle.scatter_nd_add(x, paddle.assign(np.asarray([[1], [1]])), y),
    ),
)
for _op, _function in _PAIRS:
    TABLE.add(_op, _function, label=_BEYOND, x=_X, y=_Y)
# Paddle computes the product of matrices of int64 in float32, which these numbers fit.
TABLE.add(
    "matmul",
    lambda x, y: paddle.matmul(x, y),
    label=_BEYOND,
    since=Since("3.0", "paddle.matmul refuses int64"),
    x=np.asarray([[2**20, 0], [3, 2**33]]),
    y=np.asarray([[2**20, 0], [0, 2**11]]),
)
for _reduce in ("add", "multiply", "amax", "amin"):
    TABLE.add(
        "put_along_axis",
        lambda x, y, kind=_reduce: paddle.put_along_axis(x, paddle.zeros_like(x), y, 1, kind),
        label=f"{_reduce} of {_BEYOND}",
        since=Since("3.0", "there are only add and multiply") if "am" in _reduce else None,
        x=_X,
        y=_Y,
    )
for _dtype in ("int32", "int64"):
    TABLE.add(
        "put_along_axis",
        lambda x, y: paddle.put_along_axis(
            x, paddle.assign(np.asarray([[0, 0, 1], [2, 2, 2], [3, 3, 0]])), y, 1, "mean"
        ),
        label=f"mean of {_dtype} below zero",
        x=np.asarray([[-3, -10, -17, 4], [-24, -31, -38, 5], [9, 8, -7, 6]], _dtype),
        y=np.asarray([[1, -4, -9], [-14, -19, -24], [-1, 1, 11]], _dtype),
    )
    for _op, _mean in (
        ("segment_pool", lambda x, ids: paddle.geometric.segment_mean(x, ids)),
        ("send_u_recv", lambda x, ids: paddle.geometric.send_u_recv(x, ids, ids, "mean")),
    ):
        TABLE.add(
            _op,
            lambda x, mean=_mean: mean(x, paddle.assign(np.asarray([0, 0, 1]))),
            label=f"mean of {_dtype} below zero",
            x=np.asarray([[-3, -10], [-24, 31], [9, -8]], _dtype),
        )
    TABLE.add(
        "mean",
        lambda x: [paddle.mean(x), paddle.mean(x, 1)],
        label=f"{_dtype} below zero",
        since=Since("3.0", "paddle.mean refuses integers"),
        x=np.asarray([[-3, -10], [-24, 30]], _dtype),
    )

_ALONE = (
    ("sum", lambda x: [paddle.sum(x), paddle.sum(x, 0), paddle.sum(x.astype("int32"), 0)]),
    ("prod", lambda x: paddle.prod(x, 1)),
    ("cumsum", lambda x: paddle.cumsum(x, 1)),
    ("cumprod", lambda x: paddle.cumprod(x, 1)),
    ("pow", lambda x: paddle.pow(x, 3)),
    ("scale", lambda x: paddle.scale(x, 3, 1)),
    ("abs", paddle.abs),
    ("sign", paddle.sign),
    ("clip", lambda x: paddle.clip(x, -5, 2**35)),
    ("max", lambda x: [paddle.max(x, 1), paddle.min(x, 1)]),
    ("argmax", lambda x: [paddle.argmax(x, 1), paddle.argmin(x, 1)]),
    ("argsort", lambda x: [paddle.sort(x, 1), paddle.argsort(x, 1)]),
    ("topk", lambda x: paddle.topk(x, 2, 1)),
    ("cast", lambda x: [x.astype(kind) for kind in ("float32", "int32", "int8", "uint8", "bool")]),
    ("full", lambda x: x + paddle.full([2, 3], _FAR, "int64")),
    ("assign_value", lambda x: x * paddle.assign(_Y)),
    ("tile", lambda x: paddle.tile(x, [2, 1])),
    ("expand", lambda x: paddle.expand(x, [2, 2, 3])),
    ("roll", lambda x: [paddle.roll(x, 1, 1), paddle.flip(x, [0])]),
    ("tril", paddle.tril),
    ("gather", lambda x: paddle.gather(x, paddle.assign(np.asarray([2, 0])), 1)),
    ("increment", lambda x: paddle.increment(x[0, 2:3], 5)),
)
for _op, _function in _ALONE:
    TABLE.add(_op, _function, label=_BEYOND, x=_X)
TABLE.add("abs", lambda x: [paddle.abs(x), x - 1, x + 1], label="ends of 64 bits", x=_ENDS)
TABLE.add(
    "sum",
    lambda x: paddle.sum(x, dtype="int64"),
    label="int32 to int64",
    x=np.full(5, 2**31 - 1, np.int32),
)
TABLE.add(
    "scale",
    lambda x: paddle.argmax(x, 1) * _FAR + paddle.topk(x, 1, 1)[1].flatten() * 2**33,
    label="places beyond 32 bits",
    x=normal(3, 4),
)
TABLE.add(
    "scale",
    lambda x: [
        paddle.scale(paddle.assign(np.asarray([2**60 + 1])), 3, 1) + x,
        paddle.scale(paddle.assign(np.asarray([10, -7], np.int32)), 1.5, 2.7) + x.astype("int32"),
        paddle.scale(paddle.assign(np.asarray([10, -7])), -2.5, -0.7, False) + x,
    ],
    label="constants",
    x=np.asarray([1]),
)
TABLE.add(
    "while",
    lambda x: paddle.static.nn.while_loop(
        lambda n, a: n < 3, lambda n, a: [n + 1, a * a], [paddle.zeros([], "int64"), x]
    )[1],
    label=_BEYOND,
    x=np.asarray([3, 70000]),
)
TABLE.add(
    "if",
    lambda x: paddle.static.nn.cond(x.sum() > 0, lambda: x * 2, lambda: x * 3),
    label=_BEYOND,
    x=_X,
)
TABLE.add(
    "gather",
    lambda x, n: [paddle.gather(x, n), n * _FAR],
    gradient=("x",),
    label="ids that are computed with, too",
    x=normal(4, 3),
    n=np.asarray([2, 0, 2]),
)
TABLE.add(
    "multiply",
    lambda x, n: F.embedding(n, x) * paddle.cast(n * _FAR, "float32").unsqueeze(-1),
    gradient=("x",),
    label="floats beside 64 bits",
    x=normal(4, 3),
    n=np.asarray([2, 0, 3]),
)
for _op in ("bitwise_left_shift", "bitwise_right_shift"):
    TABLE.add(
        _op,
        lambda x, y, op=_op: [getattr(paddle, op)(x, y), getattr(paddle, op)(x, y, False)],
        label="int64",
        since=Since("3.0", "the function does not exist"),
        x=_X,
        y=np.asarray([[40, 3, 20], [62, 30, 1]]),
    )

_ODD = floats(
    0.5, -1.7, 127.0, 128.0, 200.0, 256.0, 300.0, -129.0, 32768.0, -40000.0, 70000.0, 2147483520.0,
    2.0**31, -(2.0**31), 3e9, -3e9, 2.0**32, 1e12, 2.0**63, -(2.0**63), 9e18, 1e19, -1e19, 1e30,
    np.inf, -np.inf, np.nan,
)  # fmt: skip
for _dtype in ("int8", "uint8", "int16", "int32", "int64"):
    TABLE.add(
        "cast",
        lambda x, kind=_dtype: paddle.cast(x, kind),
        label=f"{_dtype} of floats that do not fit",
        x=_ODD,
    )
    TABLE.add(
        "cast",
        lambda x, y, kind=_dtype: [paddle.cast(x, kind), paddle.cast(y, kind)],
        label=f"{_dtype} of integers that do not fit",
        x=np.asarray([300, -200, 2**31, 2**32 + 5, 7 - 2**33, 2**63 - 1, -(2**63), 128]),
        y=np.asarray([300, -200, 2**31 - 1, -(2**31), 70000, 128], np.int32),
    )
TABLE.add(
    "cast",
    lambda x: paddle.cast(paddle.full([2], 3e9, "float32"), "int32") + paddle.cast(x, "int32"),
    label="a constant that does not fit",
    x=floats(1.0, 2.0),
)
# A few numbers are computed by the translator, more of them while the program is lowered.
for _count in (3, 100):
    TABLE.add(
        "multiply",
        lambda x, n=_count: [
            paddle.full([n], 1e30) * paddle.full([n], 1e30) + x,
            (paddle.full([n], np.inf) - paddle.full([n], np.inf)) + x,
            paddle.full([n], 0.0) / paddle.full([n], 0.0) + x,
            paddle.full([n], 1e30).astype("float16").astype("float32") + x,
        ],
        label=f"{_count} constants that overflow",
        x=floats(1.0),
    )
