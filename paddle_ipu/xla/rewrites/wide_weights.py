"""Weights of half types that no run changes, kept in float32 on the device.

Operators compute in float32 with numbers of half. To widen a matrix takes longer than a product of
a few rows by it, and every run would do it again. A table of which operators only look rows up
stays as small as it is, and so does a matrix that the processor multiplies in its own type.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import onnx_ir as ir

from paddle_ipu.xla.kernels import ways
from paddle_ipu.xla.lowerings.node_values import STANDARD, static_dims
from paddle_ipu.xla.precision.half import NARROW


def wide_weights(graph: ir.Graph, weights: Collection[str]) -> frozenset[str]:
    """The weights that are to be float32 on the device, and numbers of half in the model.

    Args:
        graph: the PopART graph.
        weights: those that no run changes and no result shows.
    """
    return frozenset(
        str(value.name)
        for node in ir.traversal.RecursiveGraphIterator(graph)
        for index, value in enumerate(node.inputs)
        if value is not None
        and value.dtype in NARROW
        and value.name in weights
        and not _reads_it_narrow(node, index)
    )


def is_narrow_product(node: ir.Node) -> bool:
    """Whether the processor does a product by a matrix in the type that its factors have."""
    if node.op_type != "MatMul" or node.domain not in STANDARD:
        return False
    x, matrix = static_dims(node.inputs[0]), static_dims(node.inputs[1])
    kinds = {None if value is None else value.dtype for value in node.inputs}
    return (
        kinds == {ir.DataType.BFLOAT16}
        and len(matrix) == 2
        and len(x) > 1
        and ways.has_narrow_products(math.prod(x[:-1]))
    )


def _reads_it_narrow(node: ir.Node, index: int) -> bool:
    if node.domain not in STANDARD:
        return False
    if node.op_type == "Transpose":
        return all(_reads_it_narrow(use.node, use.idx) for use in node.outputs[0].uses())
    looks_up = node.op_type == "Gather" and index == 0
    return looks_up or (index == 1 and is_narrow_product(node))
