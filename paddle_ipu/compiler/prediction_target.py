"""What is predicted: a program or saved model, its strategy, and the machine it is for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paddle_ipu.compiler.machine_choice import ipus_of
from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.compiler.source import Source, kind_of, strategy_or_new
from paddle_ipu.cost_model.choice import choose_machine
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.program import Program
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.frontend import programs
from paddle_ipu.frontend.saved_model import SavedProgram, saved_program
from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.passes.pass_base import Pass
from paddle_ipu.runtime.measured import Measurement
from paddle_ipu.zoo.models import Model
from paddle_ipu.zoo.programs import program_of_model

if TYPE_CHECKING:
    import paddle


@dataclass(frozen=True)
class PredictionTarget:
    """A program with the machine that it is predicted for.

    Attributes:
        program: for the predictor.
        machine: that it is predicted for.
        source: what the program was translated from.
        machine_name: of the machine, as ``ipu_machine`` takes it.
        measured: its runs in this process, where they were measured.
        subject: what the program is, in a line, where nobody wrote it; else "".
        batch: rows of a weight update where nobody chooses them; 0 for the strategy's.
    """

    program: Program
    machine: Machine
    source: Source
    machine_name: str
    measured: Measurement | None = None
    subject: str = ""
    batch: int = 0


def prediction_target(
    program: paddle.static.Program | SavedProgram,
    strategy: paddle.static.IpuStrategy,
    feeds: Sequence[Any],
    fetches: Sequence[Any],
    *,
    machine: str = "",
    first_passes: Sequence[Pass] | None = None,
) -> PredictionTarget:
    """Translates a program and finds its machine.

    Args:
        program: as for ``IpuCompiledProgram``.
        strategy: as for ``IpuCompiledProgram``.
        feeds: as for ``compile``.
        fetches: as for ``compile``.
        machine: goes before the strategy's; "" for that, the environment's, or the smallest.
        first_passes: run before the others; by default those of ``compile``.

    Raises:
        NotSupported, InvalidProgramError, OptionError, FeedError, FetchError, popart_exception: as
            ``compile`` does; or an unknown machine, or one with too few IPUs or tiles.
    """
    values = strategy._ipu_strategy.snapshot()
    tiles = int(values["tiles_per_ipu"]) if "tiles_per_ipu" in values.explicit else None
    name = machine or str(values["ipu_machine"])
    choice = choose_machine(name, ipus_of(values), tiles, os.environ)
    predicted = predicted_program(program, strategy, feeds, fetches, first_passes)
    return PredictionTarget(
        predicted, choice.machine, Source(program, values, feeds, fetches), choice.name
    )


def target_of_model(
    program: SavedProgram,
    strategy: paddle.static.IpuStrategy,
    *,
    feeds: Sequence[Any] | None = None,
    fetches: Sequence[Any] | None = None,
    machine: str = "",
    rows_option: str = "micro_batch_size",
) -> PredictionTarget:
    """As :func:`prediction_target`, of a saved model, by default with all its feeds and fetches.

    Args:
        rows_option: what sets the rows of a micro-batch, for the message about wrong ones.
    """
    return prediction_target(
        program,
        strategy,
        list(program.feed_names) if feeds is None else feeds,
        [str(target.name) for target in program.fetch_targets] if fetches is None else fetches,
        machine=machine,
        first_passes=(CheckMicroBatch(rows_option, " and save the model again"),),
    )


def target_of_zoo(
    model: Model,
    strategy: paddle.static.IpuStrategy | None,
    *,
    sequence: int = 0,
    machine: str = "",
) -> PredictionTarget:
    """As :func:`prediction_target`, of a model of the zoo, in static mode.

    Args:
        strategy: says whether it is trained; it is where None.
        sequence: tokens of a row; the model's own where 0.

    Raises:
        OptionError: rows of the model cannot have so many; or an unknown machine, or one with too
            few IPUs or tiles.
    """
    if strategy is None:
        strategy = strategy_or_new(None, "")
        strategy.set_graph_config(micro_batch_size=model.network.rows)
    training = bool(strategy._ipu_strategy.snapshot()["is_training"])
    built = program_of_model(model, training=training, sequence=sequence)
    target = prediction_target(built.program, strategy, built.feeds, built.fetches, machine=machine)
    return replace(
        target,
        subject=model.subject(training, sequence),
        batch=model.batch if training else 0,
    )


def target_of(
    source: paddle.static.Program | str | os.PathLike[str] | None,
    feed_list: Sequence[Any] | None,
    fetch_list: Sequence[Any] | None,
    ipu_strategy: paddle.static.IpuStrategy | None,
    machine: str,
    caller: str,
) -> PredictionTarget:
    """The target of a function that users call, in static mode.

    Args:
        caller: its name, for messages.

    Raises:
        ModelFileError: the saved model is missing or damaged.
        NotSupported, InvalidProgramError, OptionError, FeedError, FetchError, popart_exception: as
            ``compile`` does; or an unknown machine, or one with too few IPUs or tiles.
    """
    strategy = strategy_or_new(ipu_strategy, caller)
    if isinstance(source, (str, os.PathLike)):
        if ipu_strategy is None:
            strategy.set_graph_config(is_training=False)
        model = saved_program(source)
        return target_of_model(
            model, strategy, feeds=feed_list, fetches=fetch_list, machine=machine
        )
    if not programs.is_program(source):
        raise InvalidProgramError(
            f"{caller} takes a paddle.static.Program or the path of a saved model, got "
            f"{kind_of(source)}."
        )
    if feed_list is None or fetch_list is None:
        raise InvalidProgramError(
            f"{caller} of a program needs feed_list and fetch_list, as compile does: which tensors "
            "runs feed, and which they fetch."
        )
    return prediction_target(source, strategy, feed_list, fetch_list, machine=machine)
