"""Makes in-place writes in the blocks of a PIR program results of control flow.

    while(c, x) {i = increment_(i'); yield c', x'}  ->  x, i = while(c, x, i) {yield c', x', i}

An in-place operator in a block writes to the memory of an outer value, which readers after the
block, and the next iteration of a loop, then read. ProgramDesc programs have these results already.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support import roles
from paddle_ipu.passes.support.state_writes import overwritten


class CarryWrites:
    """Gives control flow a result for each outer value that a block overwrites."""

    name = "carry_writes"
    requires = ("no statistics in blocks",)
    ensures = ("block writes are results",)

    def run(self, compilation: Compilation) -> bool:
        if any(roles.role_of(node) is not None for node in compilation.graph):
            return False
        return _carry(compilation.graph)


def _carry(graph: ir.Graph) -> bool:
    changed = False
    for node in graph:
        newest: dict[int, ir.Value] = {}
        for block in dialect.blocks(node):
            _carry(block)
            newest.update(_read_newest(block))
        if newest:
            _give_results(node, newest)
            changed = True
    return changed


def _read_newest(block: ir.Graph) -> dict[int, ir.Value]:
    """Redirects reads after a write to the written value.

    Returns:
        Id of each overwritten value -> the value written last.
    """
    origin: dict[int, ir.Value] = {}
    newest: dict[int, ir.Value] = {}

    def later(value: ir.Value) -> ir.Value:
        return newest.get(id(origin.get(id(value), value)), value)

    for node in block:
        for index, value in enumerate(node.inputs):
            if value is not None and later(value) is not value:
                node.replace_input_with(index, later(value))
        for value, result in overwritten(node):
            origin[id(result)] = origin.get(id(value), value)
            newest[id(origin[id(result)])] = result
    for at, value in enumerate(block.outputs):
        if later(value) is not value:
            block.outputs[at] = later(value)
    return newest


def _give_results(node: ir.Node, newest: Mapping[int, ir.Value]) -> None:
    """Adds to a node a result for each captured value that one of its blocks overwrites."""
    blocks = dialect.blocks(node)
    *before, count = dialect.attribute(node, "input_segments")
    first = len(node.inputs) - count
    arguments = len(blocks[0].inputs) - count
    written = [
        at
        for at in range(count)
        if any(id(block.inputs[arguments + at]) in newest for block in blocks)
    ]
    if not written:
        return
    for block in blocks:
        for at in written:
            block_input = block.inputs[arguments + at]
            block.outputs.append(newest.get(id(block_input), block_input))
    operands = [node.inputs[first + at] for at in written]
    results = len(node.outputs)
    node.resize_outputs(results + len(written))
    for operand, result in zip(operands, node.outputs[results:], strict=True):
        assert operand is not None
        result.name = f"{operand.name}.written"
        result.shape, result.type = operand.shape, operand.type
        result.meta[dialect.STOPPED] = operand.meta.get(dialect.STOPPED, False)
    positions = [first + at for at in written]
    if node.op_type == "while":
        # Carried operands come before captured ones.
        order = [*written, *(at for at in range(count) if at not in written)]
        captured = [node.inputs[first + at] for at in order]
        for at, operand in enumerate(captured):
            node.replace_input_with(first + at, operand)
        block_inputs = [blocks[0].inputs[arguments + at] for at in order]
        del blocks[0].inputs[arguments:]
        blocks[0].inputs.extend(block_inputs)
        segments = [before[0], before[1] + len(written), count - len(written)]
        node.attributes["input_segments"] = ir.AttrInt64s("input_segments", segments)
        positions = [first + at for at in range(len(written))]
    node.meta[dialect.OVERWRITES] = {
        position: results + at for at, position in enumerate(positions)
    }
