"""Cuts a program into one part of equal length for each IPU, with ``need_avg_shard``.

The parts are those of the program's order, the last one takes what is left over, and each is a
pipeline stage too. Guards of the program are overridden.
"""

from __future__ import annotations

from paddle_ipu import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.check_placement import INDEX, STAGE, ipus_of_a_replica
from paddle_ipu.passes.pipeline import Compilation


class AvgShard:
    """Writes ``ipu_index`` and ``ipu_stage`` on every operator.

    Raises:
        InvalidProgramError: there are fewer operators than IPUs.
    """

    name = "avg_shard"

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
        for number, node in enumerate(nodes):
            part = min(number // length, parts - 1)
            inner = (inner for block in dialect.blocks(node) for inner in dialect.walk(block))
            for placed in (node, *inner):
                for name in (INDEX, STAGE):
                    placed.attributes.add(dialect.make_attribute(name, part))
        return True
