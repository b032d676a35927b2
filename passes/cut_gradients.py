"""Stops gradients at values whose ``stop_gradient`` is set.

    h = relu(x);  h.stop_gradient = True;  y = fc(h)   ->   y = fc(share_data(h))

The device derives gradients itself, and none passes ``share_data``.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support.new_nodes import new_node

WITHOUT_GRADIENT = frozenset({"share_data", "full_like", "shape", "shape64", "numel"})
"""Operators without a gradient: those that read only a shape, and a detach."""
_WITH_GRADIENT = {"batch_norm": 1, "batch_norm_": 1, "sync_batch_norm_": 1}
"""Operators with statistics among their results -> how many of the first have a gradient."""


class CutGradients:
    """Inserts a ``share_data`` after each stopped value between the weights and the loss."""

    name = "cut_gradients"
    requires = ("optimizer described", "forward only")
    ensures = ("stopped gradients cut",)

    def run(self, compilation: Compilation) -> bool:
        if compilation.optimizer is None:
            return False
        graph = compilation.graph
        trained = {update.parameter for update in compilation.optimizer.updates}
        moving = {id(value) for value in graph.inputs if value.name in trained}
        moving |= _with_fetched_gradient(compilation)
        return _cut_stopped(
            graph, moving, _dependencies([compilation.value(str(compilation.loss))])
        )


def _with_fetched_gradient(compilation: Compilation) -> set[int]:
    """Ids of the computed values whose gradients are fetched."""
    names = {
        name.removeprefix(GRADIENT_PREFIX)
        for name in compilation.fetches
        if name.startswith(GRADIENT_PREFIX)
    }
    values = (value for node in compilation.graph for value in node.outputs)
    return {id(value) for value in values if value.name in names}


def differentiated(compilation: Compilation) -> list[str]:
    """Names of the results that have a gradient: between the weights and the loss."""
    if compilation.optimizer is None:
        return []
    graph = compilation.graph
    trained = {update.parameter for update in compilation.optimizer.updates}
    moving = {id(value) for value in graph.inputs if value.name in trained}
    loss_depends_on = _dependencies([compilation.value(str(compilation.loss))])
    names = []
    for node in graph:
        if node.op_type in WITHOUT_GRADIENT:
            continue
        if not any(id(value) in moving for value in node.inputs):
            continue
        for value in node.outputs[: _WITH_GRADIENT.get(str(node.op_type))]:
            is_float = dialect.dtype_name(value).startswith(("float", "bfloat"))
            if is_float and not value.meta.get(dialect.STOPPED):
                moving.add(id(value))
                if id(value) in loss_depends_on:
                    names.append(str(value.name))
    return names


def _cut_stopped(
    graph: ir.Graph, moving: set[int], loss_depends_on: set[int], *, is_block: bool = False
) -> bool:
    """Cuts after stopped values of a graph.

    Args:
        graph: the graph or block.
        moving: ids of the values that depend on weights; those of the graph are added.
        loss_depends_on: ids of the values that the loss depends on.
        is_block: the graph's outputs are redirected too.
    """
    changed = False
    for node in list(graph):
        if node.op_type in WITHOUT_GRADIENT:
            continue
        if not any(id(value) in moving for value in node.inputs):
            continue
        results: Iterable[ir.Value] = node.outputs
        if dialect.blocks(node):
            results, cut = _enter_blocks(node, moving)
            changed = cut or changed
        for value in results:
            if not dialect.dtype_name(value).startswith(("float", "bfloat")):
                continue
            # The elements of an array are stopped one by one.
            if not value.meta.get(dialect.STOPPED) or dialect.is_array(value):
                moving.add(id(value))
                if id(value) in loss_depends_on:
                    node.meta[dialect.DIFFERENTIATED] = True
            elif id(value) in loss_depends_on:
                _cut(graph, node, value, is_block=is_block)
                changed = True
    return changed


def _enter_blocks(node: ir.Node, moving: set[int]) -> tuple[list[ir.Value], bool]:
    """(the results of a control-flow node that have a gradient, whether its blocks changed)."""
    changed, results = False, set[int]()
    for block in dialect.blocks(node):
        needed = _dependencies(block.outputs)
        # A block's input depends on weights if its operand does, or the value that a body yields.
        is_body = len(block.outputs) > len(node.outputs)
        yielded = block.outputs[1:] if is_body else block.outputs
        inside = {
            id(inner)
            for outer, inner in zip(node.inputs[1:], block.inputs, strict=True)
            if id(outer) in moving
        }
        while True:
            changed = _cut_stopped(block, inside, needed, is_block=True) or changed
            moving_results = {at for at, value in enumerate(yielded) if id(value) in inside}
            carried = {id(block.inputs[at]) for at in moving_results} if is_body else set()
            if carried <= inside:
                break
            inside |= carried
        results |= moving_results
    return [node.outputs[at] for at in sorted(results)], changed


def _dependencies(results: Iterable[ir.Value | None]) -> set[int]:
    """Ids of the values that `results` depend on, themselves included."""
    ids: set[int] = set()
    stack = list(results)
    while stack:
        value = stack.pop()
        if value is None or id(value) in ids:
            continue
        ids.add(id(value))
        producer = value.producer()
        stack.extend(producer.inputs if producer is not None else ())
    return ids


def _cut(graph: ir.Graph, node: ir.Node, value: ir.Value, *, is_block: bool) -> None:
    result = ir.Value(name=f"{value.name}.stopped", shape=value.shape, type=value.type)
    uses = list(value.uses())
    cut = new_node("share_data", [value], result, near=node)
    for use in uses:
        use.node.replace_input_with(use.idx, result)
    if is_block:
        for at, yielded in enumerate(graph.outputs):
            if yielded is value:
                graph.outputs[at] = result
    graph.insert_after(node, cut)
