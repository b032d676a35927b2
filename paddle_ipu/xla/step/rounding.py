"""Rounding around lowerings: each result to half where its tensor is half, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.precision.half import Narrow
from paddle_ipu.xla.step.node_lowering import Evaluate


def rounded(
    narrow: Narrow, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: rounds its results, and the gradient that it gives each operand."""
    operands = [
        None if name is None or operand is None else narrow.operand(name, operand)
        for name, operand in zip(node.inputs, operands, strict=True)
    ]
    results = evaluate(node, operands)
    return [
        narrow.result(node.op_type, name, result)
        for name, result in zip(node.outputs, results, strict=False)
    ]
