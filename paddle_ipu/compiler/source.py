"""A Paddle program as it is given to ``compile``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import paddle

    # Importing Paddle brings this module; ONNX, which passes import, is for the first compilation.
    from paddle_ipu.frontend.saved_model import SavedProgram
    from paddle_ipu.options.strategy import StrategyValues
    from paddle_ipu.passes.pass_base import Pass


@dataclass(frozen=True)
class Source:
    """A Paddle program and how it is to be compiled.

    Attributes:
        program: a PIR or ProgramDesc program, or a ``SavedProgram``.
        values: the strategy's options, consistent.
        feeds: names or variables that every run feeds.
        fetches: names or variables that runs may fetch.
        first_passes: run before those of ``PIPELINE``; None for a program as the user declared it,
            whose batch the options must not contradict.
    """

    program: paddle.static.Program | SavedProgram
    values: StrategyValues
    feeds: Sequence[Any]
    fetches: Sequence[Any]
    first_passes: Sequence[Pass] | None = None
