"""Refuses blocks of control flow that change something outside other than by what they return.

Blocks of a ProgramDesc that write variables have become nodes with results when they are read; a
PIR program writes in place, which the readers behind the block would not see.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from paddle_ipu import dialect
from paddle_ipu.dialect import describe
from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.pipeline import Compilation

_STATISTICS = ("batch_norm_", "sync_batch_norm_")


class CheckBlocks:
    """Raises on a block that writes values around it, or running statistics."""

    name = "check_blocks"

    def run(self, compilation: Compilation) -> bool:
        for graph in dialect.graphs(compilation.graph):
            for owner in graph:
                for block in dialect.blocks(owner):
                    for node in block:
                        _check(owner, block, node, compilation.fetches)
        return False


def _check(owner: ir.Node, block: ir.Graph, node: ir.Node, fetches: Sequence[str]) -> None:
    if node.op_type in _STATISTICS and not dialect.attribute(node, "is_test", 0):
        raise NotSupported(
            f"{describe(node)} updates its running statistics inside a block of {owner.op_type}, "
            "which the device does once a step only. Move the layer out of the block, or give it "
            "use_global_stats=True."
        )
    if node.op_type == "assign_value_" or (
        node.op_type == "assign_out_" and _is_read_outside(owner, block, node.inputs[1], fetches)
    ):
        raise NotSupported(
            f"{describe(node)} writes a variable from inside a block of {owner.op_type}. Return "
            "the value from the block's function instead."
        )


def _is_read_outside(
    owner: ir.Node, block: ir.Graph, target: ir.Value | None, fetches: Sequence[str]
) -> bool:
    """Whether a block's input stands for a value that not only the block's owner reads."""
    *_, captured = dialect.attribute(owner, "input_segments")
    first = len(block.inputs) - captured
    for at in range(captured):
        if block.inputs[first + at] is target:
            outer = owner.inputs[len(owner.inputs) - captured + at]
            assert outer is not None
            is_kept = outer.producer() is None or outer.name in fetches
            return is_kept or any(use.node is not owner for use in outer.uses())
    return False
