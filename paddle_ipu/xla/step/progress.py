"""How far the tracing of a graph is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.step.node_lowering import Evaluate


def reported(
    progress: Callable[[int], None],
    numbers: Iterator[int],
    node: LoweredNode,
    operands: Sequence[Operand],
    evaluate: Evaluate,
) -> Sequence[Array]:
    """Wraps a node: calls `progress` with the node's number behind its evaluation."""
    results = evaluate(node, operands)
    progress(next(numbers))
    return results
