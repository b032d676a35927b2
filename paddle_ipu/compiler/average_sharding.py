"""Where ``need_avg_shard`` divides a program into parts of equal time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu import popart
from paddle_ipu.compiler.machine_choice import choice_with_all_tiles, ipus_of
from paddle_ipu.compiler.session_arguments import data_flow, session_options
from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import device_dtype
from paddle_ipu.ops.translate import translate
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer

Array = np.ndarray[Any, Any]


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
    # Other programs need no predictor, whose import would be part of their start.
    from paddle_ipu.cost_model.program import read_program
    from paddle_ipu.cost_model.sharding import even_starts, shard

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


def zeros(
    weights: Mapping[str, ir.Value], optimizer: PaddleOptimizer | None
) -> Callable[[str], Array]:
    """Zeros for every weight, views of one block that nobody writes to.

    They take the memory of the largest at most, and where the system hands out zeros when they are
    read, none.
    """
    kinds = {name: np.dtype(device_dtype(dialect.dtype_name(v))) for name, v in weights.items()}
    sizes = {
        name: math.prod(dialect.dims_of(value)) * kinds[name].itemsize
        for name, value in weights.items()
    }
    block = np.zeros(max(sizes.values(), default=0), np.uint8)
    block.flags.writeable = False
    return lambda name: (
        block[: sizes[name]].view(kinds[name]).reshape(dialect.dims_of(weights[name]))
    )
