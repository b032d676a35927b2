"""Operators that read large trained weights: the gradients of their operands come together.

A weight is updated in place as soon as its gradient is there. What else reads it in that operator's
backward has to be done by then, or XLA keeps a copy of the weight for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence

import jax

from paddle_ipu.xla.lowerings import node_values, residuals
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.step.node_lowering import Evaluate

_VIEWS = frozenset({"Cast", "Identity", "Reshape", "Transpose"})
"""Operators whose result is a weight where their operand is one."""


def readers(nodes: Iterable[LoweredNode], weights: Collection[str]) -> set[str]:
    """First results of the operators that read one of the weights."""
    weights, results = set(weights), set[str]()
    for node in nodes:
        if not weights.isdisjoint(name for name in node.inputs if name is not None):
            (weights if node.op_type in _VIEWS else results).update(node.outputs[:1])
    return results


def joined(
    results: Collection[str],
    node: LoweredNode,
    operands: Sequence[Operand],
    evaluate: Evaluate,
) -> Sequence[Array]:
    """Wraps a node: those in `results`, by their first one, have the gradients come together."""
    if node.outputs[:1] and node.outputs[0] in results:
        floats = [isinstance(item, jax.Array) and node_values.is_float(item) for item in operands]
        together = iter(residuals.together(tuple(itertools.compress(operands, floats))))
        operands = [
            next(together) if is_float else operand
            for operand, is_float in zip(operands, floats, strict=True)
        ]
    return evaluate(node, operands)
