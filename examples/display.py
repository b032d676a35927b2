"""What the examples show while they run: lines, a compile bar, a step bar, plots of the losses."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

FEW = 50  # values of a curve, below which each of them is marked


def say(console: Console, text: str = "") -> None:
    """Print text as it is: brackets stay brackets, long lines stay whole."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


class CompileBar:
    """Progress of an IPU compilation; give it to ``compilation_progress_logger``.

    On exit a line with the elapsed time is printed. If it was never called, nothing was compiled
    and nothing is printed.
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
            # On a quiet console the bar would swallow what the program writes to its streams.
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
    """Steps done out of all steps, with a report at the right end that changes on the way.

    On a terminal the bar moves; a file or a pipe gets the finished line. With ``stays`` off
    it shows the elapsed time too, nothing is left of it at the end, and a file gets nothing.
    """

    def __init__(self, console: Console, what: str, steps: int, *, stays: bool = True) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn(what),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            *(() if stays else (TimeElapsedColumn(),)),
            TextColumn("{task.fields[report]}", markup=False),
            console=console,
            transient=not stays,
            disable=console.quiet or not (stays or console.is_terminal),
        )
        self._task = self._bar.add_task(what, total=steps, report="")

    def advance(self, report: str, steps: int = 1) -> None:
        """Count ``steps`` more as done and show ``report``."""
        self._bar.update(self._task, advance=steps, report=report)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a plot.

    Attributes:
        label: of the y axis.
        curves: label -> values, one for each step.
        levels: label -> value of a dashed horizontal line, such as what chance gives.
        points: label -> value to mark at the last step, such as the test loss.
    """

    label: str
    curves: Mapping[str, Sequence[float]]
    levels: Mapping[str, float] = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)


def plot(target: Path | BinaryIO, steps: Sequence[float], *panels: Panel, window: int = 20) -> None:
    """Write a PNG of curves by step, one panel below the other.

    Args:
        target: a path, or a stream to write to.
        steps: the weight update of each value.
        window: values in the moving average that is drawn over each curve; 1 draws the curve alone.

    Raises:
        ValueError: a curve is empty, or has not as many values as there are steps.
    """
    for panel in panels:
        for name, values in panel.curves.items():
            if not values or len(values) != len(steps):
                raise ValueError(
                    f"{name}: expected as many as the {len(steps)} steps, and not none, "
                    f"got {len(values)}"
                )
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it reports its font cache
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2 + 2 * len(panels)), layout="constrained")
    colours = cycle(("tab:blue", "tab:green", "tab:orange", "tab:purple"))
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(rows, panels, strict=True):
        for (name, values), colour in zip(panel.curves.items(), colours, strict=False):
            if window > 1:
                axes.plot(steps, values, color=colour, alpha=0.3, linewidth=0.7)
                name = f"{name}, mean of {window}"
            marker = "." if len(values) < FEW else ""  # a single value has no line
            means = moving_average(values, window)
            axes.plot(steps, means, marker=marker, color=colour, label=name)
        for name, value in panel.levels.items():
            axes.axhline(value, color="tab:red", linestyle="--", label=name)
        for name, value in panel.points.items():
            axes.plot(steps[-1:], [value], "k*", markersize=11, label=name)
        axes.set_ylabel(panel.label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper right")
    rows[-1].set_xlabel("weight update")
    figure.savefig(target, format="png", dpi=100)


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and up to ``window - 1`` before it."""
    parts = (values[max(0, end - window) : end] for end in range(1, len(values) + 1))
    return [sum(part) / len(part) for part in parts]
