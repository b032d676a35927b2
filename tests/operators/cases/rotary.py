"""Cases of rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, Since, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_NEW = Since("3.0", "the operator is newer, or has fewer attributes")


def _rope(
    q: Any,
    k: Any = None,
    v: Any = None,
    sin: Any = None,
    cos: Any = None,
    ids: Any = None,
    neox: bool = True,
    **newer: Any,
) -> list[Any]:
    results = operator(
        "fused_rotary_position_embedding",
        {
            "q": q,
            "k": k,
            "v": v,
            "sin": sin,
            "cos": cos,
            "position_ids": ids,
            "use_neox_rotary_style": neox,
        },
        ("out_q", "out_k", "out_v"),
        **newer,
    )
    found = []
    for given, result in zip((q, k, v), results, strict=True):
        if given is not None:
            # Without a kernel only the first result has a shape.
            result.desc.set_shape(list(given.shape))
            found.append(result)
    return found


def _pairs(x: Array) -> Array:
    return np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)


def _halves(x: Array) -> Array:
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def _angles(ids: Array, depth: int, base: float = 10000.0) -> Array:
    """[..., 1, D] of positions [...]."""
    return np.asarray(ids[..., None, None] * base ** -(np.arange(depth) // 2 * 2 / depth))


def _turned(x: Array, angles: Array, turn: Any = _pairs) -> Array:
    return np.asarray(x * np.cos(angles) + turn(x) * np.sin(angles), x.dtype)


_Q, _K, _V = normal(2, 3, 2, 4), normal(2, 3, 1, 4, seed=1), normal(2, 3, 1, 4, seed=2)
_IDS = np.asarray([[2, 0, 1], [1, 1, 2]])
_STEPS = np.arange(3)

_add(
    "fused_rotary_position_embedding",
    lambda q, k, v: [*_rope(q, k, v), *_rope(q, neox=False)],
    gradient=("q", "k", "v"),
    gpu_only=True,
    oracle=lambda q, k, v: [
        *(_turned(x, _angles(_STEPS, 4)) for x in (q, k, v)),
        _turned(q, _angles(_STEPS, 4), _halves),
    ],
    q=_Q,
    k=_K,
    v=_V,
)
_add(
    "fused_rotary_position_embedding",
    lambda q, k, sin, cos, rows, columns, ids: [
        *_rope(q, k, None, sin, cos),
        *_rope(q, None, None, rows, columns, neox=False),
        *_rope(q, k, None, rows, columns, ids),
    ],
    gradient=("q", "k"),
    gpu_only=True,
    oracle=lambda q, k, sin, cos, rows, columns, ids: [
        q * cos + _pairs(q) * sin,
        k * cos + _pairs(k) * sin,
        q * columns[:, None] + _halves(q) * rows[:, None],
        q * columns[ids][:, :, None] + _pairs(q) * rows[ids][:, :, None],
        k * columns[ids][:, :, None] + _pairs(k) * rows[ids][:, :, None],
    ],
    label="by tables",
    q=_Q,
    k=_K,
    sin=uniform(1, 3, 1, 4, seed=3),
    cos=uniform(1, 3, 1, 4, seed=4),
    rows=uniform(3, 4, seed=5),
    columns=uniform(3, 4, seed=6),
    ids=_IDS,
)
_add(
    "fused_rotary_position_embedding",
    lambda q, ids: [
        *_rope(q, ids=ids, rotary_emb_base=100.0, time_major=False),
        *_rope(q.transpose([1, 0, 2, 3]), time_major=True),
    ],
    gradient=("q",),
    gpu_only=True,
    since=_NEW,
    oracle=lambda q, ids: [
        _turned(q, _angles(ids, 4, 100.0)),
        _turned(q, _angles(_STEPS, 4)).transpose(1, 0, 2, 3),
    ],
    label="by ids",
    q=_Q,
    ids=_IDS,
)
TABLE.refuse(
    "fused_rotary_position_embedding",
    lambda q, sin, cos: _rope(q, None, None, sin, cos),
    "sin and cos have 5 positions, the sequence has 3",
    gpu_only=True,
    q=_Q,
    sin=uniform(5, 4),
    cos=uniform(5, 4),
)
TABLE.refuse(
    "fused_rotary_position_embedding",
    lambda q, sin: _rope(q, None, None, sin),
    "sin and cos must be given together",
    gpu_only=True,
    q=_Q,
    sin=uniform(3, 4),
)


def _partial(x: Array, cos: Array, sin: Array) -> Array:
    depth = cos.shape[-1]
    rest, turned = x[..., :-depth], x[..., -depth:]
    apart = np.concatenate([turned[..., ::2], turned[..., 1::2]], axis=-1)
    return np.concatenate([rest, apart * cos + _halves(apart) * sin], axis=-1)


_add(
    "fused_partial_rope",
    lambda x, c, s, d, t: [
        operator("fused_partial_rope", {"x": x, "cos": c, "sin": s}, ("out",))[0],
        operator("fused_partial_rope", {"x": x, "cos": d, "sin": t}, ("out",))[0],
    ],
    gradient=("x",),
    gpu_only=True,
    since=Since("3.3", "the operator is newer"),
    oracle=lambda x, c, s, d, t: [_partial(x, c, s), _partial(x, d, t)],
    x=normal(2, 3, 2, 6),
    c=uniform(1, 3, 1, 4, seed=1),
    s=uniform(1, 3, 1, 4, seed=2),
    d=uniform(1, 3, 1, 6, seed=3),
    t=uniform(1, 3, 1, 6, seed=4),
)
