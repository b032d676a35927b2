"""A Paddle program as the IPU Model's predictor reads it, without its weights' values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddle_ipu import popart
from paddle_ipu.compiler.machine_choice import choice_with_all_tiles, ipus_of
from paddle_ipu.compiler.session_arguments import data_flow, session_options
from paddle_ipu.compiler.source import Source
from paddle_ipu.compiler.translated_program import (
    TranslatedProgram,
    origin_finder,
    translate_program,
)
from paddle_ipu.compiler.zero_weights import zeros
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.cost_model.report.refusal import check_before_compiling
from paddle_ipu.options.strategy import StrategyValues, check_consistent
from paddle_ipu.passes.pass_base import Pass
from paddle_ipu.popart.placement import check_placement, check_virtual_graphs
from paddle_ipu.sessions.annotation_checks import check_annotations, check_recomputation
from paddle_ipu.sessions.checks import check_types
from paddle_ipu.sessions.option_checks import check_options, replication_factor

if TYPE_CHECKING:
    import paddle


def predicted_program(
    program: paddle.static.Program,
    ipu_strategy: paddle.static.IpuStrategy,
    feed_list: Sequence[Any],
    fetch_list: Sequence[Any],
    first_passes: Sequence[Pass] | None = None,
) -> Program:
    """What ``IpuCompiledProgram.compile`` would hand to a session, for ``model.predict``.

    The weights' values are not read: the startup program need not have run.

    Args:
        program: as for ``IpuCompiledProgram``.
        ipu_strategy: as for ``IpuCompiledProgram``.
        feed_list: as for ``compile``.
        fetch_list: as for ``compile``.
        first_passes: run before the others; by default those of ``compile``.

    Raises:
        NotSupported, InvalidProgramError, OptionError, FeedError, FetchError, popart_exception: as
            ``compile`` does.
    """
    values = ipu_strategy._ipu_strategy.snapshot()
    check_consistent(values)
    source = Source(program, values, feed_list, fetch_list, first_passes)
    translated = translate_program(popart, source, zeros)
    _check_as_sessions_do(translated, values)
    return program_of(translated, values)


def _check_as_sessions_do(translated: TranslatedProgram, values: StrategyValues) -> None:
    """Raises the popart_exception that a session would raise before it compiles."""
    options, training = session_options(popart, values), translated.compilation.training
    graph = translated.translation.builder.model.graph
    ipus = int(values["num_ipus"])
    check_options(options, training, ipus)
    check_types(graph, options)
    check_annotations(graph, options)
    check_recomputation(graph, options)
    flow = data_flow(popart, values, translated.anchors)
    of_replica = ipus // replication_factor(options)
    check_placement(graph, options, flow, training, of_replica)
    check_virtual_graphs(graph, options, of_replica)


def check_fits(translated: TranslatedProgram, values: StrategyValues) -> None:
    """Refuses a program that the machine somebody named cannot hold, before it is compiled.

    Where nobody named one, a line of the log says what a GC200 would lack.

    Raises:
        OutOfMemoryException: by the IPU Model's prediction it does not fit.
        OptionError: an unknown machine, or one with too few IPUs or tiles.
    """
    check_before_compiling(
        choice_with_all_tiles(values),
        lambda: program_of(translated, values),
        values["engine_options"],
        os.environ,
    )


def program_of(translated: TranslatedProgram, values: StrategyValues) -> Program:
    """The predictor's view of a program that was translated for our own ``popart``."""
    translation, compilation = translated.translation, translated.compilation
    optimizer = None
    if translated.chosen is not None and translated.optimizer is not None:
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
        origin_of=origin_finder(translation),
    )
    return replace(program, rows_are_fixed=compilation.rows_are_fixed)
