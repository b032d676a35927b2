"""Cases of operators of ranking and matching models."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.operators.cases.one_operator import call
from tests.operators.operator_case import Array, CaseTable, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add


def _partial(kind: str, x: Any, y: Any, start: int, length: int) -> Any:
    return call(
        kind,
        [[x, y], start, length],
        {"X": [x, y]},
        {"Out": "float32"},
        start_index=start,
        length=length,
    )[0]


# Paddle 3 has no function that writes them into a PIR program; a saved model brings them.
for _kind, _join in (
    ("partial_concat", lambda x, y: np.concatenate([x, y], axis=1)),
    ("partial_sum", np.add),
):
    _add(
        _kind,
        lambda x, y, kind=_kind: [
            _partial(kind, x, y, 0, -1),
            _partial(kind, x, y, 1, 2),
            _partial(kind, x, y, 3, -1),
        ],
        gradient=("x", "y"),
        gpu_only=True,
        oracle=lambda x, y, join=_join: [
            join(x[:, part], y[:, part]) for part in (slice(5), slice(1, 3), slice(3, 5))
        ],
        x=normal(3, 5),
        y=normal(3, 5, seed=1),
    )


def _table() -> Array:
    """Four rows: least and largest number, then eight bytes."""
    numbers = np.random.default_rng(0).integers(0, 256, (4, 8), np.uint8)
    bounds = np.asarray([[-1, 1], [0, 2], [-3, -1], [0.5, 0.75]], np.float32)
    return np.concatenate([bounds, numbers.view(np.float32)], axis=1)


def _lookup(w: Any, n: Any, padding: int) -> Any:
    return call(
        "lookup_table_dequant",
        [w, n, padding],
        {"W": w, "Ids": n},
        {"Out": "float32"},
        padding_idx=padding,
    )[0]


_add(
    "lookup_table_dequant",
    lambda w, n: [_lookup(w, n, -1), _lookup(w, n, 2)],
    w=_table(),
    n=integers(3, 1, high=4),
)


def _match(x: Any, kind: str, threshold: float) -> list[Any]:
    return call(
        "bipartite_match",
        [x, kind, threshold],
        {"DistMat": x},
        {"ColToRowMatchIndices": "int32", "ColToRowMatchDist": "float32"},
        match_type=kind,
        dist_threshold=threshold,
    )


_add(
    "bipartite_match",
    lambda x, y, z: [
        *_match(x, "bipartite", 0.5),
        *_match(x, "per_prediction", 0.5),
        *_match(y, "per_prediction", 0.3),
        *_match(z, "bipartite", 0.5),
    ],
    x=uniform(3, 5, low=0.0, high=1.0),
    y=uniform(5, 3, low=0.0, high=1.0, seed=1),
    z=floats([0.0, 0.5, 0.5], [0.5, 0.5, 0.0], [0.0, 0.0, 1e-7]),
)
_add(
    "bipartite_match",
    lambda x: [*_match(x, "bipartite", 0.5), *_match(x, "per_prediction", 0.5)],
    label="distances that are no numbers",
    x=floats([np.nan, 0.5, 2.0, np.nan], [0.75, np.nan, np.inf, 0.6], [0.9, 0.6, -np.inf, np.nan]),
)
