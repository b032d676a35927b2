"""Deletes scales that change nothing.

y = scale(x, 1.0, bias=0.0)  ->  y is x
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.pass_base import Compilation


class DeleteScale:
    """Redirects readers of an identity scale to its input; a fetched scale stays."""

    name = "delete_scale"
    requires = ("stopped gradients cut",)
    ensures = ("identity scales deleted",)

    def run(self, compilation: Compilation) -> bool:
        changed = False
        for graph in dialect.graphs(compilation.graph):
            changed = _delete(graph) or changed
        return changed


def _delete(graph: ir.Graph) -> bool:
    dead = []
    for node in graph:
        if node.op_type.removesuffix("_") != "scale":
            continue
        source, result = node.inputs[0], node.outputs[0]
        factor = dialect.scalar_constant(dialect.operand(node, "scale"))
        if source is None or factor != 1.0 or dialect.attribute(node, "bias", 0.0) != 0.0:
            continue
        if result.is_graph_output():
            continue
        for use in result.uses():
            use.node.replace_input_with(use.idx, source)
        dead.append(node)
    graph.remove(dead, safe=False)
    return bool(dead)
