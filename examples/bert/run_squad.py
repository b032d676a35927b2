"""Fine-tune BERT on SQuAD, or validate it: the stages `SQuAD` and `validation`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from examples.bert.files import DataError, write_json
from examples.bert.squad import SquadData, SquadFeatures, make_features, read_squad
from examples.bert.squad_batches import prediction_batches, squad_feeds, training_batches
from examples.bert.squad_predictions import ANSWERS_FILE, predict, write_predictions
from examples.bert.squad_score import Scores, score
from examples.bert.stages import networks
from examples.bert.stages.arguments import parse
from examples.bert.stages.device import Device, DeviceProgram, Feeds
from examples.bert.stages.script import EXIT_CODES, run
from examples.bert.stages.settings import Settings
from examples.bert.stages.start import SQUAD_HEAD, load_start
from examples.bert.stages.training import Work, train
from examples.bert.vocabulary import check_fits, load_vocabulary
from examples.display import CompileBar, StepBar, say

DESCRIPTION = f"""\
Fine-tune BERT on SQuAD 1.1 or 2.0, or validate it (--is_training False, or a preset named
validation): exact match and F1 as the official script defines them.

It writes into --output_dir: step_N/ (checkpoints), Final_model.pdparams or --save_path, log.jsonl
and losses.png; in validation squad_prediction.json, squad_nbest.json, squad_null_odds.json and
squad_scores.json. The preset "overfit" learns --questions by heart and validates on them.

{EXIT_CODES}"""

MAX_QUERY_LENGTH = 64
Logits = NDArray[Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    device, settings = parse(
        "python -m examples.bert.run_squad", DESCRIPTION, ("squad", "validation"), arguments
    )
    return run(settings, device, work)


def work(settings: Settings, device: Device, console: Console) -> int:
    """Train or validate; with ``--questions``, one after the other. The exit code."""
    data, features = read(settings, console)
    if settings.is_training:
        program = fine_tune(settings, device, features, console)
        if settings.questions:
            validate(settings.for_inference(), device, data, features, console, program)
    else:
        validate(settings, device, data, features, console)
    return 0


def read(settings: Settings, console: Console) -> tuple[SquadData, SquadFeatures]:
    """Questions and features of ``--input_files``, in the vocabulary of ``--vocab_file``.

    Raises:
        DataError: a file is missing or damaged, or the vocabulary does not fit the network.
    """
    for name in ("input_files", "vocab_file"):
        if not getattr(settings, name):
            raise DataError(f"--{name}: expected a file, got none")
    vocabulary_path = Path(settings.vocab_file)
    vocabulary = load_vocabulary(vocabulary_path)
    check_fits(vocabulary, settings.vocab_size, vocabulary_path)
    data = read_squad(Path(settings.input_files))
    if settings.questions:
        answerable = [q for q in data.questions if q.answers][: settings.questions]
        data = SquadData(tuple(answerable), has_unanswerable=False)
    with console.status("making features"):
        features = make_features(
            data.questions,
            vocabulary,
            settings.seq_len,
            min(MAX_QUERY_LENGTH, settings.seq_len // 4),
            settings.doc_stride,
        )
    say(
        console,
        f"{settings.input_files}: {len(data.questions)} questions, {len(features)} windows of "
        f"{settings.seq_len} tokens",
    )
    return data, features


def fine_tune(
    settings: Settings, device: Device, features: SquadFeatures, console: Console
) -> DeviceProgram:
    """Train to the end and write the parameters."""
    rows = settings.step_rows
    per_epoch = len(features) // rows
    if per_epoch == 0:
        raise DataError(
            f"--input_files: expected at least one run of {rows} windows, got {len(features)}; "
            "lower --micro_batch_size, --grad_acc_factor, --batches_per_step or --num_replica"
        )
    total = settings.max_steps if settings.max_steps > 0 else per_epoch * settings.epochs
    program = DeviceProgram(settings, networks.squad, device, total)
    load_start(program, settings, SQUAD_HEAD, lambda text: say(console, text))

    path = train(
        program,
        Work(
            batches=lambda position: SquadBatches(features, settings, position),
            samples=len(features),
            total_steps=total,
            record=squad_record,
            losses=("loss",),
            times=("", "train_cost", "total_cost"),
            final_name="Final_model",
            wandb_project="paddle-squad",
        ),
        console,
    )
    say(console, f"parameters {path}, loss plot {Path(settings.output_dir) / 'losses.png'}")
    return program


class SquadBatches:
    """Endless batches of a run's windows; the position is the number of the next one."""

    def __init__(
        self, features: SquadFeatures, settings: Settings, position: Mapping[str, int] | None
    ) -> None:
        rows = settings.step_rows
        self._number = position["next_batch"] if position else 0
        self._batches = (
            training_batches(features, rows, settings.seed, self._number)
            if settings.shuffle
            else in_order(features, rows, self._number)
        )

    def __next__(self) -> Feeds:
        self._number += 1
        return next(self._batches)

    def position(self) -> Mapping[str, int]:
        """Where the next batch begins."""
        return {"next_batch": self._number}

    def close(self) -> None:
        """There are no threads to end."""


def in_order(features: SquadFeatures, rows: int, start: int) -> Iterator[Feeds]:
    """Endless whole batches in the order of the file, from batch number ``start`` on."""
    per_epoch = len(features) // rows
    number = start
    while True:
        first = number % per_epoch * rows
        yield squad_feeds(features, np.arange(first, first + rows))
        number += 1


def squad_record(values: Mapping[str, float]) -> dict[str, float]:
    """The published keys: the loss, and the mean of start and end accuracy."""
    accuracy = (values["start_accuracy"] + values["end_accuracy"]) / 2
    return {"loss": values["loss"], "accuracy": accuracy}


def validate(
    settings: Settings,
    device: Device,
    data: SquadData,
    features: SquadFeatures,
    console: Console,
    trained: DeviceProgram | None = None,
) -> Scores:
    """Predict all questions, print EM and F1, write predictions; ``trained`` gives the weights."""
    pipelined = settings.num_ipus > 1 and settings.batches_per_step < settings.num_ipus
    if pipelined and device == "ipu":
        raise DataError(
            f"--batches_per_step: expected at least the {settings.num_ipus} pipeline stages of "
            f"--num_ipus, got {settings.batches_per_step}"
        )
    program = DeviceProgram(settings, networks.squad, device)
    if trained is not None:
        program.set_weights(trained.parameters())
    elif settings.enable_load_params or settings.tf_checkpoint:
        load_start(program, settings, (), lambda text: say(console, text))
    else:
        raise DataError(
            "validation: expected a fine-tuned checkpoint by --enable_load_params True and "
            "--load_params_path, or by --tf_checkpoint, got none"
        )
    if device == "ipu":
        with CompileBar(console, "the validation program") as bar:
            program.compile(bar)
    logits: dict[str, list[Logits]] = {"start_logits": [], "end_logits": []}
    begin = time.perf_counter()
    count = -(-len(features) // settings.step_rows)
    with StepBar(console, "validating", count, stays=False) as steps:
        for feeds, used in prediction_batches(features, settings.step_rows):
            del feeds["start_labels"], feeds["end_labels"]
            for name, values in program.step(feeds).items():
                logits[name].append(values.reshape(-1, settings.seq_len)[:used])
            steps.advance("")
    seconds = time.perf_counter() - begin
    predictions = predict(
        data.questions,
        features,
        np.concatenate(logits["start_logits"]).astype(np.float32),
        np.concatenate(logits["end_logits"]).astype(np.float32),
        has_unanswerable=data.has_unanswerable,
        n_best_size=settings.n_best_size,
        max_answer_length=settings.max_answer_length,
        null_score_diff_threshold=settings.null_score_diff_threshold,
    )
    scores = score(data, predictions.answers, predictions.null_odds)
    output = Path(settings.output_dir)
    write_predictions(predictions, output)
    write_json(output / "squad_scores.json", scores.as_dict())
    say(
        console,
        f"EM {scores.exact:.4f}  F1 {scores.f1:.4f}  on {scores.total} questions, "
        f"{len(features) / seconds:.1f} windows/s; {output / ANSWERS_FILE}",
    )
    if data.has_unanswerable:
        say(console, json.dumps(scores.as_dict()))
    return scores


if __name__ == "__main__":
    sys.exit(main())
