"""Operands that are constants of the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.popart.wide_integers import check_fits
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.step.node_lowering import Evaluate


def with_constants(
    training: bool, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: gives it initializers as constants; training may change those of floats."""
    operands = list(operands)
    for index, constant in node.constants.items():
        if not training or constant.dtype.kind in "iu":
            operands[index] = constant
    return evaluate(node, operands)


def within_32_bits(
    node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: constants beyond 32 bits do not reach the device.

    Raises:
        popart_exception: a result on the device comes from such a constant.
    """
    results = evaluate(node, operands)
    if node.in_64_bits or all(isinstance(result, np.ndarray) for result in results):
        return results
    own = node.own(operands)
    for index, (name, operand) in enumerate(zip(node.inputs, own, strict=False)):
        if isinstance(operand, np.ndarray) and index not in node.bounds:
            check_fits(operand, str(name), f"{node.domain}.{node.op_type} ({node.outputs[0]}): ")
    return results
