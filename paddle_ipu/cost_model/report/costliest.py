"""The operators that take longest, one row for all of a kind that a line of the user's makes."""

from __future__ import annotations

from dataclasses import dataclass

from paddle_ipu.cost_model.prediction import Prediction
from paddle_ipu.dialect.node_origin import folded


@dataclass(frozen=True, slots=True)
class OperatorShare:
    """Operators of one kind and place in the user's model, on all IPUs; numbered layers are one.

    Attributes:
        name: Paddle's, PopART's where that is not known.
        where: the layer and the user's ``file:line``, as far as they are known.
        count: how many there are.
        cycles: of a micro-batch, both directions.
        share: of the cycles of all operators.
    """

    name: str
    where: str
    count: int
    cycles: float
    share: float


def costliest_operators(prediction: Prediction, most: int) -> list[OperatorShare]:
    """At most so many, the costliest first."""
    rows = prediction.cycles.operators
    total = sum(row.forward + row.backward for row in rows) or 1.0
    merged: dict[tuple[str, str], tuple[float, int]] = {}
    for row in rows:
        origin = row.origin._replace(layer=folded(row.origin.layer))
        key = origin.name(row.op_type), origin.where
        cycles, count = merged.get(key, (0.0, 0))
        merged[key] = (cycles + row.forward + row.backward, count + row.count)
    ordered = sorted(merged.items(), key=lambda item: -item[1][0])
    return [
        OperatorShare(name, where, count, cycles, cycles / total)
        for (name, where), (cycles, count) in ordered[:most]
    ]
