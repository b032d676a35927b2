"""Splits a program into one part for each IPU, with ``need_avg_shard``.

The parts follow the program's order, and each is a pipeline stage. They override
``ipu_shard_guard``. ``Compilation.cuts`` chooses the boundaries by the cost of operators; without
it parts have equally many operators and the last gets the remainder, as in Paddle's own IPU pass.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.check_placement import INDEX, STAGE, ipus_of_a_replica
from paddle_ipu.passes.pass_base import Compilation


class AvgShard:
    """Writes ``ipu_index`` and ``ipu_stage`` on every operator, and removes them from constants.

    Raises:
        InvalidProgramError: there are fewer operators than IPUs.
    """

    name = "avg_shard"
    requires = ("precisions set", "static feeds", "identity scales deleted")
    ensures = ("operators placed",)

    def run(self, compilation: Compilation) -> bool:
        if not compilation.options["need_avg_shard"]:
            return False
        nodes = [n for n in compilation.graph if n.op_type not in dialect.CONSTANT_OPS]
        parts = ipus_of_a_replica(compilation.options)
        if len(nodes) < parts:
            raise InvalidProgramError(
                f"need_avg_shard cuts the program into one part for each of {parts} IPUs, but it "
                f"has {len(nodes)} operator(s). Lower num_ipus."
            )
        length = len(nodes) // parts
        starts: Sequence[int] = [part * length for part in range(parts)]
        if compilation.cuts is not None and parts > 1:
            starts = compilation.cuts(compilation, nodes, parts)
        for node in compilation.graph:
            if node.op_type in dialect.CONSTANT_OPS:
                # A constant is placed with its reader, not by a guard.
                for name in (INDEX, STAGE):
                    node.attributes.pop(name, None)
        for number, node in enumerate(nodes):
            part = bisect_right(starts, number) - 1
            inner = (inner for block in dialect.blocks(node) for inner in dialect.walk(block))
            for placed in (node, *inner):
                for name in (INDEX, STAGE):
                    placed.attributes.add(dialect.make_attribute(name, part))
        return True
