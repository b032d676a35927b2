"""A Paddle program as it is given to ``compile``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddle_ipu.errors import InvalidProgramError

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


def strategy_or_new(
    given: paddle.static.IpuStrategy | None, caller: str
) -> paddle.static.IpuStrategy:
    """The strategy that was given, or one with default options.

    Args:
        given: what the user gave.
        caller: whom the user called, for the message.

    Raises:
        InvalidProgramError: it is no strategy.
    """
    import paddle

    if given is None:
        return paddle.static.IpuStrategy()
    if not hasattr(given, "_ipu_strategy"):
        raise InvalidProgramError(
            f"{caller}: ipu_strategy must be a paddle.static.IpuStrategy, got {kind_of(given)}. "
            "Leave it out for one with default options."
        )
    return given


def kind_of(given: object) -> str:
    """What was given, for messages: its type and how it looks."""
    return f"{type(given).__name__} ({given!r})"
