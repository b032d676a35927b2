"""The log of a training: console, JSON lines, a plot; VisualDL and Weights & Biases on request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from examples.bert.files import DataError, writing
from examples.display import Panel, StepBar, plot, say

Record = Mapping[str, float]
Sink = Callable[[int, Record], None]

LOG_FILE = "log.jsonl"
PLOT_FILE = "losses.png"


class TrainingLog:
    """A progress bar, and a line with the published keys every ``logging_steps`` runs.

    ``log.jsonl`` in ``folder`` gets the same lines; a resumed run adds to it what comes after
    ``start``. VisualDL and Weights & Biases get every run.
    """

    def __init__(
        self,
        folder: Path,
        console: Console,
        *,
        start: int,
        total: int,
        logging_steps: int,
        visualdl: bool = False,
        wandb: str = "",
    ) -> None:
        self._console = console
        self._every = logging_steps
        self._total = total
        self._sinks: list[Sink] = []
        self._closers: list[Callable[[], object]] = []
        if visualdl:
            self._add_visualdl(folder / "visualdl")
        if wandb:
            self._add_wandb(wandb, folder)
        path = folder / LOG_FILE
        earlier = [record for record in read_log(path) if record["global_step"] <= start]
        self._file = path.open("w", encoding="utf-8")
        self._file.writelines(json.dumps(record) + "\n" for record in earlier)
        self._file.flush()
        self._bar = StepBar(console, "training", total, stays=False)
        self._bar.advance("", start)

    def add(self, step: int, record: Record) -> None:
        """One run is done; ``step`` counts from 1."""
        self._bar.advance(f"{record['throughput']:.0f} sequences/s")
        for sink in self._sinks:
            sink(step, record)
        if step % self._every == 0 or step == self._total:
            print(json.dumps(record), file=self._file, flush=True)
            say(self._console, "  ".join(f"{name} {value:.6g}" for name, value in record.items()))

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)
        self._file.close()
        for close in self._closers:
            close()

    def _add_visualdl(self, folder: Path) -> None:
        try:
            from visualdl import LogWriter
        except ImportError as error:
            raise DataError(
                "--visualdl: expected VisualDL, which is not installed: pip install visualdl"
            ) from error
        writer: Any = LogWriter(logdir=str(folder))

        def write(step: int, record: Record) -> None:
            for name, value in record.items():
                writer.add_scalar(tag=name, step=step, value=value)

        self._sinks.append(write)
        self._closers.append(writer.close)

    def _add_wandb(self, project: str, folder: Path) -> None:
        try:
            import wandb
        except ImportError as error:
            raise DataError(
                "--wandb: expected Weights & Biases, which is not installed: pip install wandb"
            ) from error
        run: Any = wandb.init(project=project, dir=str(folder))
        self._sinks.append(lambda step, record: run.log(dict(record), step=step))
        self._closers.append(run.finish)


def read_log(path: Path) -> list[dict[str, float]]:
    """The records of a log, up to a line that a kill cut off; empty where there is no log."""
    records: list[dict[str, float]] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            record = json.loads(line)
            int(record["global_step"])
        except (ValueError, KeyError, TypeError):
            break
        records.append(record)
    return records


def plot_log(
    folder: Path,
    levels: Mapping[str, Mapping[str, float]] | None = None,
    points: Mapping[str, Mapping[str, float]] | None = None,
    *,
    window: int = 1,
) -> Path:
    """Write ``losses.png`` beside ``log.jsonl``: each loss, and the accuracies, by step; its path.

    Args:
        levels: key of a loss -> label -> value to draw as a horizontal line.
        points: key of a loss -> label -> value to mark at the last step.
        window: lines of the log in the moving average.
    """
    levels, points = levels or {}, points or {}
    records = read_log(folder / LOG_FILE)
    steps = [record["global_step"] for record in records]

    def curves(kind: str) -> dict[str, list[float]]:
        return {n: [record[n] for record in records] for n in records[0] if n.startswith(kind)}

    target = folder / PLOT_FILE
    if records:
        losses = [
            Panel("loss (nats)", {name: values}, levels.get(name, {}), points.get(name, {}))
            for name, values in curves("loss").items()
        ]
        with writing(target) as stream:
            plot(stream, steps, *losses, Panel("accuracy", curves("accuracy")), window=window)
    return target
