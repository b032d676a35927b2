"""A Paddle program as the IPU Model's predictor reads it; nothing is compiled, no weight needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paddle_ipu import popart
from paddle_ipu.compiler.translated_program import (
    TranslatedProgram,
    data_flow,
    origin_finder,
    session_options,
    stand_ins,
    translate_program,
)
from paddle_ipu.cost_model.choice import Choice, choose_machine
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.cost_model.report.refusal import check_before_compiling
from paddle_ipu.cost_model.sharding import even_starts, shard
from paddle_ipu.dialect import dialect
from paddle_ipu.ops.translate import translate
from paddle_ipu.options.strategy import StrategyValues, check_consistent
from paddle_ipu.passes.pass_base import Compilation, Pass
from paddle_ipu.popart.placement import check_placement
from paddle_ipu.sessions.checks import (
    check_options,
    check_recomputation,
    check_types,
    replication_factor,
)


def predicted_program(
    program: Any,
    ipu_strategy: Any,
    feed_list: Sequence[Any],
    fetch_list: Sequence[Any],
    first_passes: Sequence[Pass] | None = None,
) -> Program:
    """What ``IpuCompiledProgram.compile`` would hand to a session, for ``model.predict``.

    The weights' values are not read: the startup program need not have run.

    Args:
        first_passes: go before the others; by default those of ``compile``.

    Raises:
        NotSupported, InvalidProgramError, OptionError, FeedError, FetchError, popart_exception: as
            ``compile`` does.
    """
    values = ipu_strategy._ipu_strategy.snapshot()
    check_consistent(values)
    translated = translate_program(
        popart,
        program,
        values,
        feed_list,
        fetch_list,
        lambda percent: None,
        first_passes,
        stand_ins,
        best_cuts,
    )
    _check_as_sessions_do(translated, values)
    return program_of(translated, values)


def _check_as_sessions_do(translated: TranslatedProgram, values: StrategyValues) -> None:
    """Raises the popart_exception that a session would raise before it compiles."""
    options, training = session_options(popart, values), translated.compilation.training
    graph = translated.translation.builder.model.graph
    ipus = int(values["num_ipus"])
    check_options(options, training, ipus)
    check_types(graph, options)
    check_recomputation(graph, options)
    flow = data_flow(popart, values, translated.anchors)
    check_placement(graph, options, flow, training, ipus // replication_factor(options))


def ipus_of(values: StrategyValues) -> int:
    """IPUs of all replicas, those of other instances too: ``num_ipus`` is of one instance."""
    ipus = int(values["num_ipus"])
    if not values["enable_distributed_replicated_graphs"]:
        return ipus
    local = int(values["replicated_graph_count"]) if values["enable_replicated_graphs"] else 1
    return max(1, ipus // local) * int(values["global_replication_factor"])


def best_cuts(
    values: StrategyValues, compilation: Compilation, nodes: Sequence[Any], parts: int
) -> Sequence[int]:
    """In front of which of a program's operators its parts begin, for ``need_avg_shard``.

    The program is translated once more for it, without places and weights.

    Args:
        compilation: forward only, with static shapes.
        nodes: its operators in order; each begins a part or belongs to the one before it.
        parts: at most as many as operators.
    """
    graph = compilation.graph
    weights = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] != dialect.FEED}
    refused: list[Any] = []
    translation = translate(
        graph, popart, stand_ins(weights, compilation.optimizer),
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
    return shard(program, groups, len(nodes), parts, _choice(values).machine)


def _choice(values: StrategyValues) -> Choice:
    """The machine that somebody named, else the smallest of GC200s, with all its tiles."""
    choice = choice_of(values)
    return choice if choice.named else choose_machine("", ipus_of(values), None, {})


def check_fits(translated: TranslatedProgram, values: StrategyValues) -> None:
    """Refuses a program that the machine somebody named cannot hold, before it is compiled.

    Where nobody named one, a line of the log says what a GC200 would lack.

    Raises:
        OutOfMemoryException: by the IPU Model's prediction it does not fit.
        OptionError: an unknown machine, or one with too few IPUs or tiles.
    """
    check_before_compiling(
        translated.translation.builder.model.graph,
        _choice(values),
        lambda: program_of(translated, values),
        values["engine_options"],
        os.environ,
    )


def is_machine_named(values: StrategyValues) -> bool:
    """Whether the strategy or the environment names a machine, which a program then must fit.

    Raises:
        OptionError: an unknown machine, or one with too few IPUs or tiles.
    """
    return choice_of(values).named


def choice_of(values: StrategyValues) -> Choice:
    """The machine that a strategy or the environment names, or a GC200's that would do.

    Raises:
        OptionError: an unknown machine, or one with too few IPUs or tiles.
    """
    tiles = int(values["tiles_per_ipu"]) if "tiles_per_ipu" in values.explicit else None
    return choose_machine(str(values["ipu_machine"]), ipus_of(values), tiles, os.environ)


def program_of(translated: TranslatedProgram, values: StrategyValues) -> Program:
    """The predictor's view of a program that was translated for our own ``popart``."""
    translation, compilation = translated.translation, translated.compilation
    origin_of = origin_finder(translation)
    optimizer = None
    if translated.chosen is not None:
        optimizer = translated.chosen.make(translated.optimizer, 0.0)
    loss = translation.tensors[str(compilation.loss)] if compilation.training else None
    options = session_options(popart, values)
    options.constantWeights = False
    program = read_program(
        translation.builder.model,
        data_flow(popart, values, translated.anchors),
        options,
        optimizer,
        loss=loss,
        ipus=ipus_of(values),
        rows=compilation.rows,
        source_of=lambda node: origin_of(node)[1],
    )
    return replace(program, rows_are_fixed=compilation.rows_are_fixed)
