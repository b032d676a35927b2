"""What a person sees while it runs: a bar for compilation and one for training."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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


class TrainingBar:
    """Steps done, elapsed time, running means of the losses and accuracies, speed and learning rate."""

    def __init__(self, console: Console, steps: int) -> None:
        self._bar = Progress(
            TextColumn("training "),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[report]}"),
            console=console,
        )
        self._task = self._bar.add_task("training", total=steps, report="")
        self._mean: StepValues | None = None

    def advance(self, values: StepValues, throughput: float, learning_rate: float) -> None:
        """One step is done; ``throughput`` is in sequences per second."""
        old = self._mean or values
        new = {
            n: _blend(getattr(old, n), getattr(values, n)) for n in StepValues.__dataclass_fields__
        }
        self._mean = mean = StepValues(**new)
        report = (
            f"MLM loss {mean.mlm_loss:.3f} acc {mean.mlm_accuracy:.1%}  "
            f"NSP loss {mean.nsp_loss:.3f} acc {mean.nsp_accuracy:.1%}  "
            f"{throughput:.0f} seq/s  lr {learning_rate:.2e}"
        )
        self._bar.update(self._task, advance=1, report=report)

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


def _blend(old: float, new: float) -> float:
    return old + SMOOTHING * (new - old)
