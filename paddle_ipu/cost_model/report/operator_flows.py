"""What operators hand to each other in the forward part of a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paddle_ipu.cost_model.program import Operator
from paddle_ipu.pages.layer_graph import OperatorFlow


def operator_flows(operators: Sequence[Operator]) -> Iterator[OperatorFlow]:
    """The flows, each pair of operators once; an operator's number is its place in `operators`."""
    made = {t.name: place for place, op in enumerate(operators) for t in op.outputs}
    for target, operator in enumerate(operators):
        read: dict[int, dict[str, int]] = {}
        for tensor in operator.read:
            if tensor.name in made:
                read.setdefault(made[tensor.name], {})[tensor.name] = tensor.bytes
        for source, sizes in read.items():
            yield OperatorFlow(source, target, sum(sizes.values()))
