"""The loop that both training stages share: steps, log, checkpoints, resuming, the final save."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console

from examples.bert.files import DataError
from examples.bert.stages.checkpoints import CheckpointFolder
from examples.bert.stages.device import DeviceProgram, Feeds
from examples.bert.stages.interruption import InterruptedRunError
from examples.bert.stages.log import TrainingLog, plot_log
from examples.bert.stages.parameters import SUFFIX, write_parameters
from examples.bert.stages.settings import Settings
from examples.command import DivergedError
from examples.display import CompileBar, say

# What may differ between the parts of a resumed run: it changes no loss.
_FREE = (
    "input_files vocab_file output_dir save_path enable_load_params load_params_path tf_checkpoint "
    "logging_steps save_steps keep_checkpoints resume overwrite wandb visualdl num_workers "
    "enable_engine_caching max_steps epochs batch_size available_mem_proportion "
    "n_best_size max_answer_length null_score_diff_threshold"
).split()


class Batches(Protocol):
    """Endless batches of a run's rows, with a position to go on from."""

    def __next__(self) -> Feeds: ...

    def position(self) -> Mapping[str, int]:
        """Where the next batch begins."""

    def close(self) -> None:
        """End the threads that read ahead."""


@dataclass(frozen=True)
class Work:
    """What a training stage trains.

    ``batches(position)`` gives the batches from there on, None from the beginning; ``samples`` are
    those of a pass over the data. ``record(values)`` makes the stage's own keys of the log from the
    fetches' means; ``losses`` are the fetches that must stay finite. ``times`` names the published
    keys of the seconds for reading, training and both; an empty name is left out.
    """

    batches: Callable[[Mapping[str, int] | None], Batches]
    samples: int
    total_steps: int
    record: Callable[[Mapping[str, float]], dict[str, float]]
    losses: tuple[str, ...]
    times: tuple[str, str, str]
    final_name: str
    wandb_project: str


def train(program: DeviceProgram, work: Work, console: Console) -> Path:
    """Train to the end, or from the newest checkpoint on; returns the final parameters' file.

    Raises:
        DataError: checkpoints are in the way, damaged, or of another setting.
        DivergedError: a loss is not finite.
        OSError: a file cannot be written.
        InterruptedRunError: with the last good checkpoint named on the console.
    """
    settings = program.settings
    output = Path(settings.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    is_first = program.replicas.is_first
    checkpoints = CheckpointFolder(output, settings.keep_checkpoints)
    setting = _setting(settings, work)
    start, position = _start(program, checkpoints, setting, console)
    if program.device == "ipu" and start < work.total_steps:
        with CompileBar(console, "the training program") as bar:
            program.compile(bar)
    try:
        if start < work.total_steps:
            _loop(program, work, checkpoints, setting, start, position, console)
        if is_first:
            plot_log(output)
        return _final(program, work)
    except (InterruptedRunError, OSError, DivergedError):
        if is_first:
            _print_last(checkpoints, console)
        raise


def _loop(
    program: DeviceProgram,
    work: Work,
    checkpoints: CheckpointFolder,
    setting: dict[str, Any],
    start: int,
    position: Mapping[str, int] | None,
    console: Console,
) -> None:
    settings = program.settings
    rows = settings.step_rows
    is_first = program.replicas.is_first
    waited = trained = 0.0
    log: TrainingLog | None = None
    if is_first:
        log = TrainingLog(
            Path(settings.output_dir),
            console,
            start=start,
            total=work.total_steps,
            logging_steps=settings.logging_steps,
            visualdl=settings.visualdl,
            wandb=work.wandb_project if settings.wandb else "",
        )
    with log or nullcontext(), closing(work.batches(position)) as batches:
        for step in range(start + 1, work.total_steps + 1):
            begin = time.perf_counter()
            feeds = next(batches)
            ready = time.perf_counter()
            own = {name: float(np.mean(v)) for name, v in program.step(feeds).items()}
            values = program.replicas.means(own)
            end = time.perf_counter()
            for name in work.losses:
                if not math.isfinite(values[name]):
                    raise DivergedError(
                        f"step {step}: expected a finite {name}, got {values[name]}; lower "
                        "--learning_rate, or --scale_loss in half precision"
                    )
            if step > start + 1:  # the first one waits for workers and code to start
                waited, trained = waited + ready - begin, trained + end - ready
            seconds = (ready - begin, end - ready, end - begin)
            if log is None:
                continue
            log.add(
                step,
                {"epoch": step * rows // work.samples, "global_step": step}
                | work.record(values)
                | {n: s for n, s in zip(work.times, seconds, strict=True) if n}
                | {"throughput": rows / (end - begin), "learning_rate": program.learning_rate},
            )
            if step % settings.save_steps == 0 or step == work.total_steps:
                checkpoints.write(program, step, setting, batches.position())
    if trained:
        share = waited / (waited + trained)
        say(console, f"waited for data {waited:.2f} s, {share:.2%} of {waited + trained:.1f} s")


def _start(
    program: DeviceProgram,
    checkpoints: CheckpointFolder,
    setting: dict[str, Any],
    console: Console,
) -> tuple[int, Mapping[str, int] | None]:
    """The runs made already and the data's position: 0 and None, or those of the checkpoint."""
    settings = program.settings
    if settings.resume:
        start, position = checkpoints.read(program, setting, lambda text: say(console, text))
        program.replicas.check_same_start(start, settings.output_dir)
        what = f"resuming after step {start}" if start else "nothing to resume; starting anew"
        say(console, f"{what} in {settings.output_dir}")
        return start, position
    if checkpoints.newest is not None:
        if not settings.overwrite:
            raise DataError(
                f"--output_dir {settings.output_dir}: holds checkpoints of an earlier run, the "
                f"newest {checkpoints.newest.name}; go on from it with --resume, remove them with "
                "--overwrite, or take another folder"
            )
        if program.replicas.is_first:
            checkpoints.clear()
    return 0, None


def _setting(settings: Settings, work: Work) -> dict[str, Any]:
    """What the losses depend on, for a run that is resumed to be compared with."""
    values = {f.name: getattr(settings, f.name) for f in fields(Settings) if f.name not in _FREE}
    return values | {"steps in all": work.total_steps, "samples": work.samples}


def _final(program: DeviceProgram, work: Work) -> Path:
    """Write the parameters where the next stage finds them."""
    settings = program.settings
    prefix = settings.save_path or str(Path(settings.output_dir) / work.final_name)
    path = Path(prefix.removesuffix(SUFFIX) + SUFFIX)
    if program.replicas.is_first:
        write_parameters(path, program.parameters())
    return path


def _print_last(checkpoints: CheckpointFolder, console: Console) -> None:
    newest = checkpoints.newest
    if newest is None:
        say(console, "no checkpoint was written yet")
    else:
        say(console, f"last good checkpoint: {newest}; --resume goes on from it")
