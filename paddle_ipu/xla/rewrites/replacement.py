"""Nodes in the place of others: operators that only the rewritten graph of a step has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from paddle_ipu.xla.lowerings import node_values, scope_names
from paddle_ipu.xla.lowerings.registry import REWRITTEN, is_random


def copied(graph: ir.Graph) -> ir.Graph:
    """A copy in which nodes may be added and removed: each knows its place in the original."""
    _have_own_subgraphs(graph, set())
    copy, random = graph.clone(), 0
    for number, node in enumerate(copy):
        node.meta[scope_names.KEY] = scope_names.of_node(node, number)
        if is_random(node.domain or "ai.onnx", node.op_type):
            node.meta[node_values.RANDOM_INDEX] = random
            random += 1
    return copy


def _have_own_subgraphs(graph: ir.Graph, seen: set[int]) -> None:
    """Gives each operator subgraphs of its own: onnx-ir clones none that two operators call."""
    for node in graph:
        for name, attribute in tuple(node.attributes.items()):
            if attribute.type != ir.AttributeType.GRAPH:
                continue
            inner = attribute.as_graph()
            if id(inner) in seen:
                own = inner.clone(allow_outer_scope_values=True)
                node.attributes[name] = ir.AttrGraph(name, own)
            else:
                seen.add(id(inner))
                _have_own_subgraphs(inner, seen)


def become(node: ir.Node, op_type: str, **attributes: object) -> None:
    """Makes a node an operator of the domain :data:`REWRITTEN`, with the same operands and results.

    Args:
        attributes: what its lowering takes beside the node's own attributes.
    """
    node.domain, node.op_type = REWRITTEN, op_type
    node.meta[node_values.ATTRIBUTES] = attributes
    node.metadata_props.update({name: str(value) for name, value in attributes.items()})


class Replacement:
    """Puts one operator in the place of several.

    Args:
        graph: what :func:`copied` gave.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._makers = {str(node.outputs[0].name): node for node in graph if node.outputs}
        values = [*graph.inputs, *graph.initializers.values()]
        values += [value for node in graph for value in node.outputs]
        self._values = {str(value.name): value for value in values}

    def maker(self, result: str) -> ir.Node:
        """The node with that first result."""
        return self._makers[result]

    def put(
        self,
        op_type: str,
        inputs: Sequence[str | None],
        result: str,
        *,
        named_by: str,
        dropped: Collection[str],
        attributes: Mapping[str, object],
    ) -> None:
        """Puts an operator where `result` is made.

        Args:
            op_type: of the domain :data:`REWRITTEN`.
            inputs: tensors that it reads.
            result: its only result, which the last of the several makes.
            named_by: first result of the operator whose name it has.
            dropped: first results of the others; nothing else reads them.
            attributes: what its lowering takes.
        """
        head, node = self._makers[named_by], self._makers[result]
        node.name, node.meta[scope_names.KEY] = head.name, head.meta[scope_names.KEY]
        node.attributes.clear()
        node.resize_inputs(len(inputs))
        for index, name in enumerate(inputs):
            node.replace_input_with(index, None if name is None else self._values[name])
        become(node, op_type, **attributes)
        others = dict.fromkeys(self._makers[name] for name in dropped if name != result)
        self._graph.remove(others, safe=True)
