"""Nodes with blocks, as both readers of Paddle programs write them.

Paddle's blocks read the values around them as they are; the dialect's blocks are closed. A `Region`
collects what a block reads from outside while it is read, and the functions here make the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from paddle_ipu.dialect import dialect

MOST_NESTED = 128
"""Blocks in blocks of a saved program: what reads one goes down by recursion, and ``switch_case``
puts each branch into the one before it."""


@dataclass(slots=True)
class Region:
    """A block under construction.

    Attributes:
        arguments: its own inputs, the carried values of a loop.
        nodes: its operators.
        results: what it yields.
        captured: id of a value outside -> that value, and the block's input that stands for it.
    """

    arguments: list[ir.Value] = field(default_factory=list)
    nodes: list[ir.Node] = field(default_factory=list)
    results: list[ir.Value] = field(default_factory=list)
    captured: dict[int, tuple[ir.Value, ir.Value]] = field(default_factory=dict)

    def capture(self, outer: ir.Value) -> ir.Value:
        """The block's input that stands for a value outside."""
        if id(outer) not in self.captured:
            self.captured[id(outer)] = (outer, _stand_in(outer))
        return self.captured[id(outer)][1]

    def graph(self, name: str, captured: Sequence[ir.Value]) -> ir.Graph:
        """The block, with an input for each of `captured`, whether it reads it or not."""
        inputs = [*self.arguments, *(self.capture(value) for value in captured)]
        return ir.Graph(
            inputs, self.results, nodes=self.nodes, opset_imports={dialect.DOMAIN: 1}, name=name
        )


def captured_by(regions: Iterable[Region]) -> list[ir.Value]:
    """The outer values that regions read, each once, in the order of their first use."""
    captured: dict[int, ir.Value] = {}
    for region in regions:
        for key, (outer, _) in region.captured.items():
            captured.setdefault(key, outer)
    return list(captured.values())


def condition(
    cond: ir.Value, then: Region, otherwise: Region, outputs: Sequence[ir.Value]
) -> ir.Node:
    """An ``if`` node.

    Args:
        cond: the condition, of one element.
        then: the block for true.
        otherwise: the block for false, with as many results.
        outputs: the node's results, as many too.
    """
    captured = captured_by((then, otherwise))
    return _node(
        "if",
        [cond, *captured],
        [
            ir.AttrGraph(dialect.THEN, then.graph(dialect.THEN, captured)),
            ir.AttrGraph(dialect.ELSE, otherwise.graph(dialect.ELSE, captured)),
            ir.AttrInt64s("input_segments", [1, len(captured)]),
        ],
        outputs,
        (dialect.COND, dialect.CAPTURED),
    )


def loop(
    cond: ir.Value, carried: Sequence[ir.Value], body: Region, outputs: Sequence[ir.Value]
) -> ir.Node:
    """A ``while`` node.

    Args:
        cond: the condition before the first iteration.
        carried: the initial values of the loop variables.
        body: the block; its results are the next condition, then the next loop variables.
        outputs: the node's results, the loop variables at the end.
    """
    captured = captured_by((body,))
    return _node(
        "while",
        [cond, *carried, *captured],
        [
            ir.AttrGraph(dialect.BODY, body.graph(dialect.BODY, captured)),
            ir.AttrInt64s("input_segments", [1, len(carried), len(captured)]),
        ],
        outputs,
        (dialect.COND, dialect.CARRIED, dialect.CAPTURED),
    )


def selection(
    mask: ir.Value, otherwise: ir.Value, then: ir.Value, output: ir.Value
) -> tuple[ir.Node, ir.Node]:
    """A selection by a mask of one element, as a cast to bool and an ``if``.

    Args:
        mask: 0 or 1.
        otherwise: the result for 0.
        then: the result for 1.
        output: the result.

    Returns:
        (the cast, the ``if`` node).
    """
    cond = ir.Value(
        name=f"{output.name}.mask", shape=mask.shape, type=ir.TensorType(dialect.DTYPES["bool"])
    )
    cast = _node("cast", [mask], [dialect.make_attribute("dtype", "bool")], [cond], ("x",))
    branches = Region(), Region()
    for branch, value in zip(branches, (then, otherwise), strict=True):
        branch.results.append(branch.capture(value))
    return cast, condition(cond, *branches, [output])


def backward(
    op_type: str, operands: Sequence[ir.Value | None], outputs: Sequence[ir.Value]
) -> ir.Node:
    """An ``if_grad`` or ``while_grad`` node, which only records the values it reads.

    Args:
        op_type: its type.
        operands: the values it reads.
        outputs: its results.
    """
    return _node(op_type, operands, [], outputs, ())


def _node(
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Sequence[ir.Attr],
    outputs: Sequence[ir.Value],
    names: Sequence[str],
) -> ir.Node:
    node = ir.Node(
        dialect.DOMAIN,
        op_type,
        inputs,
        attributes,
        outputs=outputs,
        name=outputs[0].name if outputs else op_type,
    )
    node.meta[dialect.INPUT_NAMES] = tuple(names)
    return node


def _stand_in(outer: ir.Value) -> ir.Value:
    value = ir.Value(name=outer.name, shape=outer.shape, type=outer.type)
    if dialect.STOPPED in outer.meta:
        value.meta[dialect.STOPPED] = outer.meta[dialect.STOPPED]
    return value
