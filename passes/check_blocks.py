"""Refuses operators that a block of control flow cannot have on the device."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.dialect import describe
from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.pass_base import Compilation

_STATISTICS = ("batch_norm_", "sync_batch_norm_")


class CheckBlocks:
    """Raises if a block updates running statistics.

    Raises:
        NotSupported: a batch normalisation in training mode is in a block.
    """

    name = "check_blocks"
    requires = ()
    ensures = ("no statistics in blocks",)

    def run(self, compilation: Compilation) -> bool:
        for graph in dialect.graphs(compilation.graph):
            for owner in graph:
                for block in dialect.blocks(owner):
                    for node in block:
                        _check(owner, node)
        return False


def _check(owner: ir.Node, node: ir.Node) -> None:
    if node.op_type in _STATISTICS and not dialect.attribute(node, "is_test", 0):
        raise NotSupported(
            f"{describe(node)} updates its running statistics inside a block of {owner.op_type}, "
            "which the device does once a step only. Move the layer out of the block, or give it "
            "use_global_stats=True."
        )
