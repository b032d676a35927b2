"""Runs that share micro-batches, as ``enable_model_runtime_executor`` asks: who provides them.

Serving does, and stands above the runtime: it is registered here by what activates the plugin.
"""

from __future__ import annotations

from collections.abc import Callable

from paddle_ipu.errors import ServingError
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.runtime.ipu_program import IpuProgram

Provider = Callable[[IpuProgram, StrategyValues], None]

_registered: list[Provider] = []


def register(provider: Provider) -> None:
    """Takes what has a program's runs share micro-batches, in place of any before it."""
    _registered[:] = [provider]


def begin(program: IpuProgram, values: StrategyValues) -> None:
    """Has the program's runs share micro-batches, as the strategy says.

    Raises:
        ServingError: nothing is registered, or the program's rows cannot be told apart.
    """
    if not _registered:
        program.backend.reset()
        raise ServingError(
            "enable_model_runtime_executor: paddle_ipu is not active, so there is nothing that "
            "gathers runs. Call paddle_ipu.activate() first."
        )
    _registered[0](program, values)
