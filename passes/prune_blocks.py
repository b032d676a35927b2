"""Removes from the blocks of control flow what their results do not need.

    if(p, x, w) {then: y = relu(x); z = exp(w); yield y}  ->  if(p, x) {then: y = relu(x); yield y}

Captured values that no block reads are removed, and a copy that a block yields is replaced by its
source.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.extract_forward import has_side_effect, needed_for
from paddle_ipu.passes.pass_base import Compilation


class PruneBlocks:
    """Removes dead operators of blocks, and captured values that no block reads."""

    name = "prune_blocks"
    requires = ("forward only",)
    ensures = ("blocks pruned",)

    def run(self, compilation: Compilation) -> bool:
        return _prune_nodes(compilation.graph)


def _prune_nodes(graph: ir.Graph) -> bool:
    changed = False
    for node in list(graph):
        for block in dialect.blocks(node):
            changed = _replace_writes(block) or changed
            changed = _yield_sources(block) or changed
            changed = _drop_dead(block) or changed
            changed = _prune_nodes(block) or changed
        if dialect.blocks(node):
            changed = _drop_captures(node) or changed
    return changed


def _replace_writes(block: ir.Graph) -> bool:
    """Redirects reads of ``assign_out_`` to its source; ``carry_writes`` has made it a result."""
    writes = [node for node in block if node.op_type == "assign_out_"]
    for node in writes:
        source = node.inputs[0]
        assert source is not None
        for use in node.outputs[0].uses():
            use.node.replace_input_with(use.idx, source)
        for at, yielded in enumerate(block.outputs):
            if yielded is node.outputs[0]:
                block.outputs[at] = source
    return bool(writes)


def _yield_sources(block: ir.Graph) -> bool:
    """Yields the sources of copies: blocks of a ProgramDesc assign to their results."""
    changed = False
    for at, value in enumerate(block.outputs):
        node = value.producer()
        source = node.inputs[0] if node is not None and node.op_type == "assign" else None
        if source is None or not _stopped_alike(source, value):
            continue
        block.outputs[at] = source
        changed = True
    return changed


def _stopped_alike(first: ir.Value, second: ir.Value) -> bool:
    return bool(first.meta.get(dialect.STOPPED)) == bool(second.meta.get(dialect.STOPPED))


def _drop_dead(block: ir.Graph) -> bool:
    effects = (node for node in block if has_side_effect(node))
    needed = needed_for([*(value.producer() for value in block.outputs), *effects])
    dead = [node for node in block if id(node) not in needed]
    for node in dead:
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
    block.remove(dead, safe=False)
    return bool(dead)


def _drop_captures(node: ir.Node) -> bool:
    """Removes captured operands whose block inputs are neither read nor yielded."""
    *before, count = dialect.attribute(node, "input_segments")
    blocks = dialect.blocks(node)
    arguments = len(blocks[0].inputs) - count
    kept = [
        at for at in range(count) if any(_is_read(block.inputs[arguments + at]) for block in blocks)
    ]
    if len(kept) == count:
        return False
    first = len(node.inputs) - count
    operands = [node.inputs[first + at] for at in kept]
    for block in blocks:
        inputs = [block.inputs[arguments + at] for at in kept]
        del block.inputs[arguments:]
        block.inputs.extend(inputs)
    for at, operand in enumerate(operands):
        node.replace_input_with(first + at, operand)
    node.resize_inputs(first + len(kept))
    node.attributes["input_segments"] = ir.AttrInt64s("input_segments", [*before, len(kept)])
    return True


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
