"""Pretrain BERT from prepared data: the stages `phase1` and `phase2`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from examples.bert.files import DataError
from examples.bert.loader import PretrainingLoader
from examples.bert.sample_files import HDF5_SUFFIXES, TFRECORD_SUFFIXES, describe_samples
from examples.bert.stages import networks
from examples.bert.stages.arguments import parse
from examples.bert.stages.device import Device, DeviceProgram
from examples.bert.stages.script import EXIT_CODES, run, say
from examples.bert.stages.settings import Settings
from examples.bert.stages.start import PRETRAINING_HEADS, load_start
from examples.bert.stages.training import Work, train

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


def work(settings: Settings, device: Device, console: Console) -> None:
    """Train to the end and write the parameters."""
    files = training_files(settings)
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
    say(console, f"{settings.input_files}: {samples} samples in {len(files)} files")
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

    program = DeviceProgram(settings, networks.pretraining, device, total)
    optional = PRETRAINING_HEADS if settings.tf_checkpoint else ()
    load_start(program, settings, optional, lambda text: say(console, text))
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


def training_files(settings: Settings) -> list[Path]:
    """The data files of ``--input_files``: a folder's, or the one file.

    Raises:
        DataError: there are none with "training" in their names.
    """
    if not settings.input_files:
        raise DataError("--input_files: expected a folder of hdf5 or tfrecord files, got none")
    given = Path(settings.input_files)
    endings = HDF5_SUFFIXES + TFRECORD_SUFFIXES
    found = [given] if given.is_file() else sorted(given.glob("*"))
    files = [p for p in found if p.suffix in endings and "training" in p.name]
    if not files:
        raise DataError(
            f'{given}: expected files with "training" in their names that end in one of '
            f"{', '.join(endings)}, found none; python -m examples.bert.prepare makes them"
        )
    return files


if __name__ == "__main__":
    sys.exit(main())
