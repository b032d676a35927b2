"""Programs that fit without being looked at: most of those that people try out."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from paddle_ipu.cost_model.choice import Choice

_SMALL = 0.02
"""Share of an IPU's memory below which nobody has to look where a program's tensors are."""


def is_small(graph: ir.Graph, choice: Choice) -> bool:
    """Whether all tensors of a program together take next to nothing of one IPU's memory.

    Args:
        graph: PopART's.
        choice: the machine.
    """
    return _bytes_of(graph) < _SMALL * choice.machine.processor.memory


def _bytes_of(graph: ir.Graph) -> int:
    """More than the bytes of a graph's weights and of everything its operators make."""
    values = [*graph.initializers.values(), *(v for node in graph for v in node.outputs)]
    elements = 0
    for value in values:
        if value.shape is not None:
            elements += prod(dim if isinstance(dim, int) else 1 for dim in value.shape)
    return 4 * elements
