"""Excludes the dropout of attention from backward, as a pattern of published scripts asks.

    d = dropout(x);  y = matmul(d, v)   ->   y = matmul(share_data(d) + (x - share_data(x)), v)

where x is the result of a softmax: x - share_data(x) is 0 and has x's gradient, so backward is that
without dropout. The pattern is ``DisableAttnDropoutBwdPattern``.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support.new_nodes import new_node

PATTERN = "DisableAttnDropoutBwdPattern"

_SAME_VALUES = frozenset({"cast", "assign"})
_MATMULS = frozenset({"matmul", "bmm"})


class PassAttentionGradients:
    """Rewrites dropouts between a softmax and a matrix product, if the pattern is enabled."""

    name = "pass_attention_gradients"
    requires = ("stopped gradients cut", "operators placed")
    ensures = ()

    def run(self, compilation: Compilation) -> bool:
        if not compilation.training or not compilation.patterns.get(PATTERN):
            return False
        changed = False
        for graph in list(dialect.graphs(compilation.graph)):
            for node in list(graph):
                if node.op_type == "dropout" and _is_of_attention(node):
                    _rewrite(graph, node)
                    changed = True
        return changed


def _is_of_attention(node: ir.Node) -> bool:
    source = dialect.operand(node, "x")
    maker = None if source is None else source.producer()
    while _is_same(maker):
        assert maker is not None
        source = maker.inputs[0]
        maker = None if source is None else source.producer()
    return maker is not None and maker.op_type == "softmax" and _feeds_product(node.outputs[0])


def _is_same(node: ir.Node | None) -> bool:
    return node is not None and node.op_type in _SAME_VALUES


def _feeds_product(value: ir.Value) -> bool:
    return any(
        use.node.op_type in _MATMULS or (_is_same(use.node) and _feeds_product(use.node.outputs[0]))
        for use in value.uses()
    )


def _rewrite(graph: ir.Graph, node: ir.Node) -> None:
    x, dropped = dialect.operand(node, "x"), node.outputs[0]
    assert x is not None
    uses = list(dropped.uses())
    nodes: list[ir.Node] = []

    def add(op_type: str, *operands: ir.Value) -> ir.Value:
        name = f"{dropped.name}.straight.{len(nodes)}"
        result = ir.Value(name=name, shape=dropped.shape, type=dropped.type)
        nodes.append(new_node(op_type, operands, result, near=node))
        return result

    kept = add("share_data", dropped)
    straight = add("add", kept, add("subtract", x, add("share_data", x)))
    graph.insert_after(node, nodes)
    for use in uses:
        use.node.replace_input_with(use.idx, straight)
