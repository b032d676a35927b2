"""Whether anything of an inference program is left once what no anchor needs is pruned.

Unlike the other checks it asks the lowerings, and so imports JAX.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.op_schema import ONNX
from paddle_ipu.popart.program import variable_writes
from paddle_ipu.xla.lowerings.registry import has_effect


def check_not_all_pruned(graph: ir.Graph, anchors: Collection[str], loss: str | None) -> None:
    """Checks that an inference program has something to compute.

    Args:
        anchors: tensor ids.
        loss: id of the loss; None in inference.

    Raises:
        popart_exception: the anchors are inputs, and no operator changes a variable or the host.
    """
    if loss is not None or variable_writes(graph, training=False):
        return
    made = {str(value.name) for node in graph for value in node.outputs}
    if made.isdisjoint(anchors) and not any(
        has_effect(node.domain or ONNX, node.op_type) for node in graph
    ):
        error = popart_exception("All operations in the main graph were pruned, nothing to compute")
        error.add_note(f"No operator makes one of the anchors: {', '.join(anchors)}.")
        raise error
