"""What the examples show while they run: lines, a compile bar, a step bar, a plot of the losses."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)


def say(console: Console, text: str = "") -> None:
    """Print text as it is: brackets stay brackets, long lines stay whole."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


class CompileBar:
    """Progress of an IPU compilation; give it to ``compilation_progress_logger``.

    When it is left, a line with the elapsed time stays. Without a call in between nothing was
    compiled, and nothing is printed.
    """

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn(f"compiling {what}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            # A quiet one would take what the program writes elsewhere, and not show it.
            disable=not console.is_terminal or console.quiet,
        )
        self._what = what
        self._task = self._bar.add_task("", total=None)
        self._begin = time.perf_counter()
        self._called = False

    def __call__(self, done: int, total: int) -> None:
        self._called = True
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        self._begin = time.perf_counter()
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if error is None and self._called:
            minutes, seconds = divmod(time.perf_counter() - self._begin, 60)
            hours, minutes = divmod(int(minutes), 60)
            elapsed = f"{hours:02d}:{minutes:02d}:{seconds:04.1f}"
            say(
                self._console,
                f"compiling {self._what}: 100% Compilation Finished [Elapsed: {elapsed}]",
            )


class StepBar:
    """Runs of one pass over the data, with a report at the right end that changes as it goes.

    A terminal sees the bar move; a file or a pipe gets the finished line.
    """

    def __init__(self, console: Console, what: str, steps: int) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn(what),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[report]}", markup=False),
            console=console,
            disable=console.quiet,
        )
        self._task = self._bar.add_task(what, total=steps, report="")

    def advance(self, report: str, steps: int = 1) -> None:
        """So many more steps are done."""
        self._bar.update(self._task, advance=steps, report=report)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


def plot_losses(
    path: Path,
    steps: Sequence[float],
    losses: Sequence[float],
    points: Mapping[str, tuple[float, float]] | None = None,
    *,
    y_label: str = "loss",
    window: int = 20,
) -> None:
    """Write a PNG of a training's loss by step, with its moving average.

    Args:
        points: label -> (step, value), single measurements to mark, such as the test loss.
        window: how many values the moving average takes in.

    Raises:
        ValueError: there is no loss, or not as many as steps.
    """
    if not losses or len(steps) != len(losses):
        raise ValueError(
            f"losses: expected as many as the {len(steps)} steps, and not none, got {len(losses)}"
        )
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its font cache
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, losses, color="tab:blue", alpha=0.3, linewidth=0.7)
    means = [
        sum(losses[max(0, i + 1 - window) : i + 1]) / min(i + 1, window) for i in range(len(losses))
    ]
    axes.plot(steps, means, color="tab:blue", label=f"training, mean of {window} steps")
    for colour, (label, (step, value)) in zip(
        ("k", "tab:red", "tab:green"), (points or {}).items(), strict=False
    ):
        axes.plot([step], [value], "*", color=colour, markersize=11, label=label)
    axes.set_xlabel("weight update")
    axes.set_ylabel(y_label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=100)
