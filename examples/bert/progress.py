"""What a person sees while it runs: a bar for compilation and one for training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from examples.bert.session import StepValues

SMOOTHING = 0.02  # weight of the newest step in the shown averages


class CompileBar:
    """Progress of the IPU compilation, fed by the strategy's ``compilation_progress_logger``."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("compiling"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            # A quiet one would take what the program writes elsewhere, and not show it.
            disable=console.quiet,
        )
        self._task = self._bar.add_task("compiling", total=None)

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

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


class TrainingBar(Progress):
    """Steps, elapsed time, running means of losses and accuracies, speed, learning rate.

    Where the output is no terminal, the numbers are printed as lines, twenty in a training.
    """

    def __init__(self, console: Console, steps: int) -> None:
        columns = (TextColumn("training "), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._report = ""
        self._is_terminal = console.is_terminal
        super().__init__(*columns, console=console)
        self._mean: StepValues | None = None
        self._line_steps = max(1, steps // 20)
        self._step = 0
        self._task = self.add_task("training", total=steps)

    def advance_step(self, values: StepValues, throughput: float, learning_rate: float) -> None:
        """One step is done; ``throughput`` is in sequences per second."""
        old = self._mean or values
        blended = (_blend(getattr(old, f.name), getattr(values, f.name)) for f in fields(values))
        self._mean = mean = StepValues(*blended)
        self._step += 1
        self._report = (
            f"MLM loss {mean.mlm_loss:.3f} acc {mean.mlm_accuracy:.1%}  "
            f"NSP loss {mean.nsp_loss:.3f} acc {mean.nsp_accuracy:.1%}  "
            f"{throughput:.0f} seq/s  lr {learning_rate:.2e}"
        )
        self.advance(self._task)
        if not self._is_terminal and self._step % self._line_steps == 0:
            self.console.print(
                f"step {self._step}: {self._report}", highlight=False, soft_wrap=True
            )

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and the numbers on a line below it."""
        yield self.make_tasks_table(self.tasks)
        if self._is_terminal:
            yield Text(self._report)


def _blend(old: float, new: float) -> float:
    return old + SMOOTHING * (new - old)
