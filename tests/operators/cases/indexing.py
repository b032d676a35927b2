"""Cases of elements picked by their values, by beams and by shards."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import CaseTable, bools, integers, normal

TABLE = CaseTable()
_add = TABLE.add

_MATRIX = normal(3, 4)
_MASK = bools(3, 4, seed=1)

_add(
    "masked_select",
    lambda x: [
        paddle.masked_select(x, paddle.assign(_MASK)).reshape([int(_MASK.sum())]),
        paddle.masked_select(x, paddle.assign(_MASK[:1])).reshape([3, int(_MASK[0].sum())]),
    ],
    gradient=("x",),
    x=_MATRIX,
)
TABLE.refuse(
    "masked_select",
    lambda x, m: paddle.masked_select(x, m),
    "how many elements it gives depends on the values of a tensor",
    x=_MATRIX,
    m=_MASK,
)
_add(
    "nonzero",
    lambda x: [
        paddle.nonzero(paddle.assign(_MASK)),
        paddle.gather_nd(x, paddle.nonzero(paddle.assign(_MASK))),
    ],
    x=_MATRIX,
)
TABLE.refuse(
    "nonzero",
    lambda x: paddle.nonzero(x),
    "how many elements it gives depends on the values of a tensor",
    x=_MATRIX,
)
_LISTED = np.asarray([[3, 1, 3], [1, 1, 0], [3, 1, 3]], np.float32)
_TYPES = "Paddle 3 says that the numbers of elements are float32, and fetches them as that"

_add(
    "unique",
    lambda x: [
        paddle.unique(paddle.assign(_LISTED)) * x,
        paddle.unique(paddle.assign(_LISTED), axis=0),
        paddle.unique(paddle.assign(_LISTED), axis=1),
    ],
    limitation=_TYPES,
    x=normal(1),
)
TABLE.refuse(
    "unique",
    lambda x: paddle.unique(x),
    "how many elements it gives depends on the values of a tensor",
    x=_MATRIX,
)
_add(
    "unique_consecutive",
    lambda x: [
        paddle.unique_consecutive(paddle.assign(_LISTED)) * x,
        paddle.unique_consecutive(paddle.assign(_LISTED[:, [0, 0, 1]]), axis=1),
    ],
    limitation=_TYPES,
    x=normal(1),
)
TABLE.refuse(
    "unique_consecutive",
    lambda x: paddle.unique_consecutive(x),
    "how many elements it gives depends on the values of a tensor",
    x=_MATRIX,
)
_add(
    "gather_tree",
    lambda i, p: [
        F.gather_tree(i, p),
        F.gather_tree(i.astype("int32"), p.astype("int32")),
    ],
    i=integers(4, 2, 3, high=9),
    p=integers(4, 2, 3, high=3, seed=1),
)
_add(
    "shard_index",
    lambda i: [
        paddle.shard_index(i, 20, 2, 0),
        paddle.shard_index(i, 20, 3, 2, -7),
        paddle.shard_index(i.astype("int32"), 20, 4, 1),
    ],
    i=np.arange(20).reshape(20, 1),
)
