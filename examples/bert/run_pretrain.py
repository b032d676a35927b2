"""Pretrain BERT from prepared data: the stages `phase1` and `phase2`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from examples.bert.files import DataError
from examples.bert.loader import PretrainingLoader
from examples.bert.sample_files import describe_samples, find_files
from examples.bert.stages import networks
from examples.bert.stages.arguments import parse
from examples.bert.stages.device import Device, DeviceProgram
from examples.bert.stages.script import EXIT_CODES, run
from examples.bert.stages.settings import Settings
from examples.bert.stages.start import PRETRAINING_HEADS, load_start
from examples.bert.stages.training import Work, train
from examples.display import say

DESCRIPTION = f"""\
Pretrain BERT, masked words and next sentence, on the hdf5 or tfrecord files of --input_files that
have "training" in their names (examples/bert/prepare.py makes them).

It writes into --output_dir: step_N/ (checkpoints), final_step_N.pdparams or --save_path, log.jsonl
and losses.png.

{EXIT_CODES}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    device, settings = parse(
        "python -m examples.bert.run_pretrain", DESCRIPTION, ("phase1", "phase2"), arguments
    )
    return run(settings, device, work)


def work(settings: Settings, device: Device, console: Console) -> int:
    """Train on the files of ``--input_files``; the exit code."""
    if not settings.input_files:
        raise DataError("--input_files: expected a folder of hdf5 or tfrecord files, got none")
    pretrain(settings, device, find_files(Path(settings.input_files)).training, console)
    return 0


def pretrain(
    settings: Settings,
    device: Device,
    files: Sequence[Path],
    console: Console,
    optional: tuple[str, ...] = (),
) -> DeviceProgram:
    """Train to the end, or on from a checkpoint, and write the parameters; the trained program.

    Args:
        files: of training samples.
        optional: beginnings of the parameters that a checkpoint to start from may lack.

    Raises:
        DataError: a file does not fit, or cannot be used.
    """
    # The data: how many samples there are, and so how many steps.
    samples = count_samples(files, settings)
    source = settings.input_files or files[0].parent
    say(console, f"{source}: {samples} samples in {len(files)} files")
    total = settings.max_steps
    if total < 0:
        total = max(1, samples * settings.epochs // settings.step_rows)

    def batches(position: Mapping[str, int] | None) -> PretrainingLoader:
        return PretrainingLoader(
            files,
            settings.max_predictions_per_seq,
            settings.max_position_embeddings - 1,
            settings.step_rows,
            settings.seed,
            workers=settings.num_workers,
            vocabulary_rows=settings.vocab_size,
            start=position,
        )

    # The network with its optimizer as a program, and the weights that it starts from.
    program = DeviceProgram(settings, networks.pretraining, device, total)
    if settings.tf_checkpoint:
        optional = PRETRAINING_HEADS
    load_start(program, settings, optional, lambda text: say(console, text))

    # Compile, train, write checkpoints, log and plot.
    path = train(
        program,
        Work(
            batches=batches,
            samples=samples,
            total_steps=total,
            record=lambda values: dict(values),
            losses=("loss/MLM", "loss/NSP"),
            times=("latency/read", "latency/train", "latency/e2e"),
            final_name=f"final_step_{total}",
            wandb_project="paddle-base-bert",
        ),
        console,
    )
    say(console, f"parameters {path}, loss plot {Path(settings.output_dir) / 'losses.png'}")
    return program


def count_samples(files: Sequence[Path], settings: Settings) -> int:
    """The samples of all files, whose shapes are checked.

    Raises:
        DataError: the samples of a file are not of ``--seq_len`` tokens.
    """
    samples = 0
    for path in files:
        shape = describe_samples(path)
        samples += shape.samples
        if shape.sequence_length > settings.max_position_embeddings:
            raise DataError(
                f"{path}: expected samples of at most --max_position_embeddings "
                f"{settings.max_position_embeddings} tokens, got {shape.sequence_length}"
            )
        if shape.sequence_length != settings.seq_len:
            raise DataError(
                f"{path}: expected samples of --seq_len {settings.seq_len} tokens, got "
                f"{shape.sequence_length}"
            )
    return samples


if __name__ == "__main__":
    sys.exit(main())
