"""Runs a script until enough runs of its program were measured, for ``report --measure``.

The first run of a program does more than the others and is not measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from paddle_ipu.cli.scripts import Compilation, Run, ScriptEnd, ScriptHooks, run_script
from paddle_ipu.errors import MeasurementError, OutOfMemoryException

if TYPE_CHECKING:
    from paddle.static import Program, Variable

    from paddle_ipu.options.strategy import Strategy
    from paddle_ipu.runtime.ipu_program import IpuProgram
    from paddle_ipu.runtime.measured import Measurement

    Compiled = Callable[
        [Program, Strategy, Sequence[str | Variable], Sequence[str | Variable]], None
    ]


class _MeasuredRuns(ScriptHooks):
    """Measures the runs of the first program that a script compiles.

    Args:
        steps: how many runs.
        compiled: called with the program before it is compiled.

    Attributes:
        program: the program.
        runs: how many there were.
        measurement: None before the second.
        measuring: closed when no more runs are measured.
    """

    def __init__(self, steps: int, compiled: Compiled) -> None:
        self._steps = steps
        self._compiled = compiled
        self.measuring = contextlib.ExitStack()
        self.program: IpuProgram | None = None
        self.runs = 0
        self.measurement: Measurement | None = None

    def compile(self, compilation: Compilation) -> IpuProgram:
        if self.program is not None:
            return compilation.proceed()
        source = compilation.source
        self._compiled(
            source._program, source._ipu_strategy, compilation.feeds, compilation.fetches
        )
        try:
            self.program = compilation.proceed()
        except OutOfMemoryException as error:
            raise ScriptEnd from error
        return self.program

    def run(self, run: Run) -> Any:
        if self.program is None or run.program is not self.program:
            return run.proceed()
        if self.runs == 1:
            self.measurement = self.measuring.enter_context(self.program.measure())
        results = run.proceed()
        self.runs += 1
        if self.runs > self._steps:
            raise ScriptEnd
        return results


def measured_script(
    path: str, arguments: Sequence[str], steps: int, compiled: Compiled
) -> Measurement | None:
    """Runs a script as ``__main__`` until `steps` runs of its program are measured.

    Args:
        path: the script.
        arguments: of the script.
        steps: how many runs.
        compiled: called before the program is compiled, with program, strategy, feeds and fetches.

    Returns:
        The measurement; None where the program was refused because it does not fit.

    Raises:
        MeasurementError: it made no second run.
    """
    import paddle

    hooks = _MeasuredRuns(steps, compiled)
    paddle.enable_static()
    with hooks.measuring:
        try:
            run_script(path, arguments, hooks)
        except SystemExit as ended:
            if ended.code:
                raise
    if hooks.program is not None and hooks.measurement is None:
        raise MeasurementError(
            f"the script ran its program {hooks.runs} time(s), and the first run is not measured: "
            "have it run at least twice."
        )
    return hooks.measurement
