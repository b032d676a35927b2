"""Where ``need_avg_shard`` divides a program into parts of equal time."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from paddle_ipu import popart
from paddle_ipu.compiler.machine_choice import choice_with_all_tiles, ipus_of
from paddle_ipu.compiler.session_arguments import data_flow, session_options
from paddle_ipu.compiler.zero_weights import zeros
from paddle_ipu.cost_model.program import read_program
from paddle_ipu.cost_model.sharding import even_starts, shard
from paddle_ipu.dialect import dialect
from paddle_ipu.ops.translate import translate
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.passes.pass_base import Compilation


def part_starts(
    values: StrategyValues, compilation: Compilation, nodes: Sequence[ir.Node], parts: int
) -> Sequence[int]:
    """The operators that parts of a program begin with, for ``need_avg_shard``.

    The program is translated once more for it, without places and weights.

    Args:
        values: the strategy's.
        compilation: forward only, with static shapes.
        nodes: its operators in order; each begins a part or belongs to the one before it.
        parts: at most as many as operators.

    Returns:
        Indices into `nodes`.
    """
    graph = compilation.graph
    weights = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] != dialect.FEED}
    refused: list[ir.Node] = []
    translation = translate(
        graph, popart, zeros(weights, compilation.optimizer),
        custom_ops=values.custom_ops,
        refused=lambda node, error: refused.append(node),
    )  # fmt: skip
    loss = translation.tensors.get(str(compilation.loss)) if compilation.training else None
    if refused and len(refused) == len(nodes):
        return even_starts(len(nodes), parts)
    options = session_options(popart, values)
    program = read_program(
        translation.builder.model, data_flow(popart, values, {}), options, compilation.optimizer,
        loss=loss, ipus=ipus_of(values), rows=compilation.rows,
    )  # fmt: skip
    number = {
        id(inner): index
        for index, node in enumerate(nodes)
        for inner in (node, *(n for block in dialect.blocks(node) for n in dialect.walk(block)))
    }
    groups = {
        tensor: number[id(node)]
        for tensor, node in translation.origins.items()
        if id(node) in number
    }
    return shard(program, groups, len(nodes), parts, choice_with_all_tiles(values).machine)
