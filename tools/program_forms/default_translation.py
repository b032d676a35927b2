"""Translates a Paddle program with the options of a new strategy; no session is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

from paddle_ipu import popart
from paddle_ipu.frontend import programs
from paddle_ipu.ops.translate import Translation, translate
from paddle_ipu.passes.pass_base import Compilation, run_passes
from paddle_ipu.passes.pipeline import PIPELINE

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class DefaultTranslation:
    """A PopART program, and its tensors for the names of the Paddle program.

    Attributes:
        compilation: the dialect graph after all passes, with the optimizer in training.
        translation: the PopART program.
    """

    compilation: Compilation
    translation: Translation


def translate_by_default(
    program: paddle.static.Program,
    feeds: Sequence[str],
    fetches: Sequence[Any],
    parameter: Callable[[str], Array],
    *,
    training: bool = False,
    in_64_bits: bool = False,
) -> DefaultTranslation:
    """Reads a program, runs the passes and translates it, as ``IpuCompiledProgram.compile`` does.

    Args:
        program: a PIR or ProgramDesc program.
        feeds: names of its feeds.
        fetches: variables to fetch, or their names.
        parameter: gives a parameter's value by its name.
        training: whether weights are updated.
        in_64_bits: int64 stays INT64, as a compile for the IPU Model has it; else it is INT32, as
            on the hardware.
    """
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=training)
    names = [fetch if isinstance(fetch, str) else str(fetch.name) for fetch in fetches]
    graph = programs.read(program)
    options = strategy._ipu_strategy.snapshot()
    compilation = Compilation(graph, list(feeds), names, options)
    run_passes(PIPELINE, compilation)
    translation = translate(
        graph, popart, parameter, writes=compilation.state_writes(), in_64_bits=in_64_bits
    )
    return DefaultTranslation(compilation, translation)
