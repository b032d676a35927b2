"""What operators hand to each other in the forward part of a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from paddle_ipu.cost_model.program import Operator


class OperatorFlow(NamedTuple):
    """Tensors that one operator makes and another reads.

    Attributes:
        source, target: the operators' places.
        bytes: of all such tensors of a micro-batch.
    """

    source: int
    target: int
    bytes: int


def operator_flows(operators: Sequence[Operator]) -> Iterator[OperatorFlow]:
    """The flows, each pair of operators once; places are those in `operators`."""
    made = {t.name: place for place, op in enumerate(operators) for t in op.outputs}
    for target, operator in enumerate(operators):
        read: dict[int, dict[str, int]] = {}
        for tensor in operator.read:
            if tensor.name in made:
                read.setdefault(made[tensor.name], {})[tensor.name] = tensor.bytes
        for source, sizes in read.items():
            yield OperatorFlow(source, target, sum(sizes.values()))
