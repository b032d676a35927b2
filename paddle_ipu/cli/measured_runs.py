"""Has a script run until enough runs of its program were measured; what ``report --measure`` does.

The first run of a program does more than the others and is not measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from paddle_ipu.cli.scripts import run_script, taking_over
from paddle_ipu.errors import MeasurementError, OutOfMemoryException

if TYPE_CHECKING:
    from paddle_ipu.runtime.measured import Measurement


class _Done(BaseException):
    """Ends a script; no handler for errors of its own catches it."""


class _Watch:
    """Measures the runs of the first program that a script compiles."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.measuring = contextlib.ExitStack()
        self.program: Any = None
        self.runs = 0
        self.measurement: Measurement | None = None

    def before(self) -> None:
        """Told of a run of the program that begins."""
        if self.runs == 1:
            self.measurement = self.measuring.enter_context(self.program.measure())

    def after(self) -> None:
        """Told that it has ended; ends the script behind the last one wanted."""
        self.runs += 1
        if self.runs > self._steps:
            raise _Done


def measured_script(
    path: str,
    arguments: Sequence[str],
    steps: int,
    found: Callable[[Any, Any, Sequence[Any], Sequence[Any]], None],
) -> Measurement | None:
    """Runs a script as ``__main__`` until `steps` runs of its program are measured.

    Args:
        found: told of the program before it is compiled: program, strategy, feeds and fetches.

    Returns:
        The measurement; None where the program was refused because it does not fit.

    Raises:
        MeasurementError: it made no second run.
    """
    import paddle

    watch = _Watch(steps)

    def compiling(stock: Callable[..., Any]) -> Callable[..., Any]:
        def compile_(self: Any, feed_list: Sequence[Any], fetch_list: Sequence[Any]) -> Any:
            if watch.program is not None:
                return stock(self, feed_list, fetch_list)
            found(self._program, self._ipu_strategy, feed_list, fetch_list)
            try:
                watch.program = stock(self, feed_list, fetch_list)
            except OutOfMemoryException as error:
                raise _Done from error
            return watch.program

        return compile_

    def running(stock: Callable[..., Any]) -> Callable[..., Any]:
        def run_(self: Any, program: Any = None, *args: Any, **keywords: Any) -> Any:
            if program is None or program is not watch.program:
                return stock(self, program, *args, **keywords)
            watch.before()
            results = stock(self, program, *args, **keywords)
            watch.after()
            return results

        return run_

    paddle.enable_static()
    with watch.measuring, taking_over(compiling, running):
        try:
            run_script(path, arguments)
        except _Done:
            pass
        except SystemExit as ended:
            if ended.code:
                raise
    if watch.program is not None and watch.measurement is None:
        raise MeasurementError(
            f"the script ran its program {watch.runs} time(s), and the first run is not measured: "
            "have it run at least twice."
        )
    return watch.measurement
