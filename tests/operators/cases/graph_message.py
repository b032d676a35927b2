"""Cases of messages along the edges of a graph, and of segments."""

from __future__ import annotations

import numpy as np
import paddle
from paddle import geometric

from tests.operators.operator_case import CaseTable, floats, integers, normal

TABLE = CaseTable()
_add = TABLE.add

_NODES = normal(4, 3)
_FROM = np.asarray([0, 3, 3, 1, 2])
_TO = np.asarray([1, 1, 0, 1, 4])

for _kind in ("sum", "mean", "max", "min"):
    _add(
        "send_u_recv",
        lambda x, s, d, kind=_kind: [
            geometric.send_u_recv(x, s, d, reduce_op=kind, out_size=6).reshape([6, 3]),
            geometric.send_u_recv(x, s, paddle.minimum(d, s), reduce_op=kind).reshape([4, 3]),
        ],
        gradient=("x",),
        label=_kind,
        x=_NODES,
        s=_FROM,
        d=_TO,
    )
    for _message in ("add", "sub", "mul", "div"):
        _add(
            "send_ue_recv",
            lambda x, e, s, d, kind=_kind, message=_message: geometric.send_ue_recv(
                x, e, s, d, message_op=message, reduce_op=kind, out_size=5
            ).reshape([5, 3]),
            gradient=("x", "e"),
            label=f"{_kind} of {_message}",
            x=_NODES,
            e=normal(5, 3, seed=1),
            s=_FROM,
            d=_TO,
        )
for _kind in ("max", "min"):
    _add(
        "send_u_recv",
        lambda x, s, d, kind=_kind: geometric.send_u_recv(
            x, s, d, reduce_op=kind, out_size=5
        ).reshape([5, 2]),
        gradient=("x",),
        label=f"{_kind} with ties",
        x=floats([1.0, 2.0], [1.0, -2.0], [1.0, -2.0], [0.0, -2.0]),
        s=_FROM,
        d=_TO,
    )
_add(
    "send_u_recv",
    lambda x, s, d: geometric.send_u_recv(x, s, d, reduce_op="sum", out_size=5),
    label="whole numbers",
    x=integers(4, 3),
    s=_FROM.astype(np.int32),
    d=_TO.astype(np.int32),
)
_add(
    "send_ue_recv",
    lambda x, e, s, d: geometric.send_ue_recv(x, e, s, d, out_size=5).reshape([5, 2, 3]),
    gradient=("x", "e"),
    label="broadcast",
    x=normal(4, 2, 3),
    e=normal(5, 1, 1, seed=1),
    s=_FROM,
    d=_TO,
)
for _message in ("add", "sub", "mul", "div"):
    _add(
        "send_uv",
        lambda x, y, s, d, message=_message: geometric.send_uv(x, y, s, d, message_op=message),
        gradient=("x", "y"),
        label=_message,
        x=normal(5, 3),
        y=normal(5, 3, seed=1),
        s=_FROM,
        d=_TO,
    )
_SEGMENTS = np.asarray([0, 0, 1, 3, 3])
for _kind in ("sum", "mean", "max", "min"):
    _add(
        "segment_pool",
        lambda x, kind=_kind: getattr(geometric, f"segment_{kind}")(
            x, paddle.assign(_SEGMENTS)
        ).reshape([4, 3]),
        gradient=("x",),
        label=_kind,
        x=normal(5, 3),
    )
TABLE.refuse(
    "segment_pool",
    lambda x, i: geometric.segment_sum(x, i),
    "the segment ids must be constants of the program",
    x=normal(5, 3),
    i=_SEGMENTS,
)
