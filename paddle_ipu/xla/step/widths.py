"""How many bits the integers of a graph have, and arrays brought to the width of their tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np
import onnx_ir as ir

from paddle_ipu.popart import integer_widths
from paddle_ipu.xla.lowerings import scope_names
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.precision import integers
from paddle_ipu.xla.step.node_lowering import Evaluate


class Widths:
    """The widths of a graph's tensors.

    Args:
        graph: a PopART graph whose tensors are typed.
        in_64_bits: tensors that are integers of 64 bits, those of subgraphs too.
    """

    def __init__(self, graph: ir.Graph, in_64_bits: frozenset[str]) -> None:
        self.in_64_bits = in_64_bits
        # Of no use, and left empty, where nothing has 64 bits.
        self._is_wide = _widths(graph) if in_64_bits else {}

    def computes_in_64_bits(self, node: ir.Node, names: Sequence[str | None]) -> bool:
        """Whether an operator, which reads `names`, computes with integers of 64 bits."""
        picks = integer_widths.index_inputs(node)
        reads = any(
            name in self.in_64_bits for index, name in enumerate(names) if index not in picks
        )
        gives = any(value.name in self.in_64_bits for value in node.outputs)
        return reads or (gives and not integer_widths.gives_places(node))

    def converted(
        self, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
    ) -> Sequence[Array]:
        """Wraps a node: its operands are indices of 32 bits, and others all of one width."""
        return evaluate(node, self.of_operands(node, operands))

    def traced(
        self, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
    ) -> Sequence[Array]:
        """Wraps a node: JAX has 64-bit integers if the node has, and its results their widths."""
        # Constants are computed with NumPy; like the device it says nothing of overflows.
        ignored = np.errstate(all="ignore")
        with scope_names.entered(node.scope), self._allowed_for(node), ignored:
            return self.of_results(node, evaluate(node, operands))

    def _allowed_for(self, node: LoweredNode) -> AbstractContextManager[object]:
        return integers.allowed(node.in_64_bits) if self.in_64_bits else nullcontext()

    def of_tensor(self, name: str, array: Operand) -> Any:
        """A tensor's array, of integers with as many bits as the tensor has; constants as is."""
        if array is None or name not in self._is_wide:
            return array
        if name in self.in_64_bits:
            return array if integers.is_wide(array) else integers.widened(array)
        is_constant = isinstance(array, np.ndarray)
        return array if is_constant or not integers.is_wide(array) else array.astype(np.int32)

    def of_results(self, node: LoweredNode, results: Sequence[Array]) -> Sequence[Array]:
        """An operator's results, but for constants in the widths of its results."""
        if not self.in_64_bits:
            return results
        return [
            result if isinstance(result, np.ndarray) else self.of_tensor(name, result)
            for name, result in zip(node.outputs, results, strict=False)
        ]

    def of_operands(self, node: LoweredNode, operands: Sequence[Operand]) -> list[Operand]:
        """Operands as an operator takes them: indices in 32 bits, others all of one width."""
        converted = list(operands)
        if not self.in_64_bits:
            return converted
        for index, (name, array) in enumerate(zip(node.inputs, operands, strict=True)):
            if node.in_64_bits and isinstance(array, np.ndarray):
                # JAX knows a constant by its identity, and with as many bits as it saw first.
                converted[index] = array.copy() if integers.is_wide(array) else array
            if not isinstance(array, jax.Array):
                continue
            if index in node.indices and integers.is_wide(array):
                converted[index] = integers.saturated(array)
            elif node.in_64_bits and self._is_wide.get(str(name)) and not integers.is_wide(array):
                converted[index] = integers.widened(array)
        return converted


def _widths(graph: ir.Graph) -> dict[str, bool]:
    """Of each tensor of 32 or 64-bit integers, whether it is of 64."""
    results = itertools.chain.from_iterable(node.outputs for node in graph)
    values = (*graph.inputs, *graph.initializers.values(), *results)
    kinds = {ir.DataType.INT32: False, ir.DataType.INT64: True}
    return {str(v.name): kinds[v.dtype] for v in values if v.dtype in kinds}
