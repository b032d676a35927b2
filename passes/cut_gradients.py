"""Stops gradients where the program does: at values whose ``stop_gradient`` is set.

h = relu(x);  h.stop_gradient = True;  y = fc(h)   ->   y = fc(share_data(h))

The device derives gradients itself, and ``share_data`` is what no gradient passes.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu import dialect
from paddle_ipu.passes.pipeline import Compilation

_WITHOUT_GRADIENT = frozenset({"share_data", "full_like", "shape", "shape64", "numel"})
"""Operators whose results no gradient passes as it is: those that read a shape, and a detach."""
_COPIED = ("ipu_index", "ipu_stage", "op_role")


class CutGradients:
    """Puts a ``share_data`` behind each stopped value between the weights and the loss."""

    name = "cut_gradients"

    def run(self, compilation: Compilation) -> bool:
        if compilation.optimizer is None:
            return False
        graph = compilation.graph
        trained = {update.parameter for update in compilation.optimizer.updates}
        moving = {id(value) for value in graph.inputs if value.name in trained}
        behind_loss = _behind(compilation.value(str(compilation.loss)))
        changed = False
        for node in list(graph):
            if node.op_type in _WITHOUT_GRADIENT:
                continue
            if not any(id(value) in moving for value in node.inputs):
                continue
            for value in node.outputs:
                if not dialect.dtype_name(value).startswith(("float", "bfloat")):
                    continue
                if not value.meta.get(dialect.STOPPED):
                    moving.add(id(value))
                elif id(value) in behind_loss:
                    _cut(graph, node, value)
                    changed = True
        return changed


def _behind(loss: ir.Value | None) -> set[int]:
    found: set[int] = set()
    stack = [loss]
    while stack:
        value = stack.pop()
        if value is None or id(value) in found:
            continue
        found.add(id(value))
        producer = value.producer()
        stack.extend(producer.inputs if producer is not None else ())
    return found


def _cut(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    result = ir.Value(name=f"{value.name}.stopped", shape=value.shape, type=value.type)
    uses = list(value.uses())
    cut = ir.Node(
        dialect.DOMAIN,
        "share_data",
        [value],
        [node.attributes[key] for key in _COPIED if key in node.attributes],
        outputs=[result],
        name=result.name,
    )
    cut.meta[dialect.CALLSTACK] = node.meta.get(dialect.CALLSTACK, ())
    cut.meta[dialect.INPUT_NAMES] = ("x",)
    for use in uses:
        use.node.replace_input_with(use.idx, result)
    graph.insert_after(node, cut)
