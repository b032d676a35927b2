"""`make bert`: pretrain BERT on real English text, on the IPU or on Paddle's CPU executor."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

from rich.console import Console

from examples import command
from examples.bert.compare import comparable, verify
from examples.bert.held_out import evaluate_held_out
from examples.bert.held_out import report as report_held_out
from examples.bert.loader import PretrainingLoader
from examples.bert.presets import PRESETS, Preset
from examples.bert.run_pretrain import pretrain
from examples.bert.sample_files import PretrainingFiles, find_files
from examples.bert.sample_making import (
    REPORT_FILE,
    Corpus,
    SampleBar,
    SampleSettings,
    make_corpus,
)
from examples.bert.samples import MASKED_SHARE
from examples.bert.stages.device import Device
from examples.bert.stages.log import plot_log
from examples.bert.stages.script import EXIT_CODES, run
from examples.bert.stages.settings import Settings
from examples.bert.stages.start import PRETRAINING_HEADS
from examples.display import say
from examples.text import read_articles

DESCRIPTION = """\
Pretrain BERT (masked words and next sentence) with a static Paddle program.

The text is English Wikipedia and news that gensim installs; a WordPiece vocabulary is trained on
it. The prepared data stays in the output folder and is reused. At the end the loss on articles that
were held out is printed beside the entropy of the masked words' frequencies: a network that learnt
only which words are common stops there, one that reads the context ends below.
"""

EPILOG = f"""\
what it writes into the output folder:
  data/...             vocabulary and samples, hdf5 in the layout of NVIDIA's BERT data
  step_N/              checkpoints: weights, optimizer state, position in the data
  final_step_N.pdparams  the weights at the end
  log.jsonl            losses, accuracies, latencies, throughput, every --logging-steps
  losses.png           the loss curves

{EXIT_CODES}  with --verify: 0 the losses of both devices agree; 1 they differ

examples:
  python -m examples.bert.pretrain                   the default, minutes on two cores
  python -m examples.bert.pretrain --preset smoke    a few seconds, to see that it runs
  python -m examples.bert.pretrain --verify          the first steps of both devices, compared
  python -m examples.bert.pretrain --preset base-phase1 --input-dir wikipedia_hdf5
"""

SMOOTHED_STEPS = 50  # of the moving averages in the plot

# Arguments that change the preset's settings.
CHANGES = {
    "steps": "max_steps",
    "micro_batch": "micro_batch_size",
    "accumulation": "grad_acc_factor",
    "learning_rate": "learning_rate",
    "num_ipus": "num_ipus",
    "seed": "seed",
    "save_steps": "save_steps",
    "logging_steps": "logging_steps",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options, preset = parse(arguments)

    def work(settings: Settings, device: Device, console: Console) -> int:
        if options.input_dir is not None:
            files = find_files(options.input_dir)
        else:
            files = prepared_files(options.output, preset, console)
        if options.verify:
            return verify_devices(settings, files, options.verify_steps, console)
        program = pretrain(settings, device, files.training, console, PRETRAINING_HEADS)
        held_out = evaluate_held_out(program, files, console)
        reference = report_held_out(settings.vocab_size, files, held_out, console)
        plot_log(
            options.output,
            {
                "loss/MLM": {"entropy of the masked words": reference.entropy},
                "loss/NSP": {"a coin": math.log(2.0)},
            },
            {"loss/MLM": {"held-out articles": held_out[0]["loss/MLM"]}} if held_out else {},
            window=max(1, SMOOTHED_STEPS // settings.logging_steps),
        )
        return 0

    device: Device = "ipu" if options.verify else options.device
    return run(preset.settings, device, work, "--output")


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Preset]:
    """The command line's options, and the preset with the changes that they ask for.

    Exits with code 2 and a usage line where an argument is wrong.
    """
    presets = "\n".join(f"  {name:<12} {preset.about}" for name, preset in PRESETS.items())
    parser = command.parser_of(
        "examples.bert.pretrain", DESCRIPTION, f"presets:\n{presets}\n\n{EPILOG}", "out/bert"
    )
    command.add_device(parser)
    add = parser.add_argument
    add(
        "--preset",
        choices=PRESETS,
        default="small",
        help="sizes and hyper-parameters (default: small)",
    )
    add("--input-dir", type=Path, help='hdf5 files to use instead, "training" in their names')
    add("--load", metavar="PREFIX", help="start from a checkpoint's weights")
    add(
        "--resume",
        action="store_true",
        help="go on from the newest checkpoint in --output; a run without it removes those there",
    )
    add("--verify", action="store_true", help="compare the first steps of both devices and stop")
    add("--verify-steps", type=int, default=5, metavar="N", help="how many steps (default: 5)")
    add("--steps", type=int, help="weight updates, instead of the preset's")
    add("--micro-batch", type=int, help="samples in a micro-batch, instead of the preset's")
    add(
        "--accumulation", type=int, help="micro-batches in a weight update, instead of the preset's"
    )
    add(
        "--learning-rate",
        "--learning_rate",
        type=float,
        help="peak learning rate, instead of the preset's",
    )
    add("--num-ipus", type=int, help="IPUs of one replica, instead of the preset's")
    add("--seed", type=int, help="of weights, data and dropout, instead of the preset's")
    add("--save-steps", type=int, help="steps between checkpoints, instead of the preset's")
    add(
        "--logging-steps", type=int, default=10, help="steps between lines of the log (default: 10)"
    )
    options = parser.parse_args(arguments)
    try:
        return options, chosen_preset(options)
    except ValueError as error:
        parser.error(str(error))


def chosen_preset(options: argparse.Namespace) -> Preset:
    """The preset with the command line's changes.

    Raises:
        ValueError: an argument is out of its range; the message names it.
    """
    command.check_positive(options, *(name for name in CHANGES if name != "seed"), "verify_steps")
    preset = PRESETS[options.preset]
    values = {ours: getattr(options, name) for name, ours in CHANGES.items()}
    settings = replace(
        preset.settings,
        **{name: value for name, value in values.items() if value is not None},
        output_dir=str(options.output),
        input_files=str(options.input_dir or ""),
        enable_load_params=options.load is not None,
        load_params_path=options.load or "",
        resume=options.resume,
        overwrite=not options.resume,
    )
    ipus, layers = settings.num_ipus, settings.num_hidden_layers
    if layers < ipus - 1:
        raise ValueError(
            f"--num-ipus: expected at most {layers + 1} for {layers} encoder layers, beside the "
            f"embedding's IPU, got {ipus}"
        )
    stages = ipus + 1 if ipus > 1 else 1
    if options.device == "ipu" and settings.grad_acc_factor < stages:
        raise ValueError(
            f"--accumulation: expected at least the {stages} pipeline stages of {ipus} IPUs, "
            f"got {settings.grad_acc_factor}"
        )
    if settings.warmup_steps >= settings.max_steps:
        settings = replace(settings, warmup_steps=settings.max_steps // 10)
    if options.verify:
        settings = comparable(settings)
    return replace(preset, settings=settings)


def prepared_files(output: Path, preset: Preset, console: Console) -> PretrainingFiles:
    """The samples of the text that gensim installs, made in the output folder unless there."""
    wanted = preset.settings
    samples = SampleSettings(
        wanted.seq_len,
        wanted.max_predictions_per_seq,
        MASKED_SHARE,
        duplicates=preset.passes,
        files=None,
        held_out_share=preset.held_out_share,
        format="hdf5",
        seed=wanted.seed,
    )
    identity = json.dumps([asdict(samples), wanted.vocab_size, preset.text_share])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    folder = output / "data" / f"seq{wanted.seq_len}-vocab{wanted.vocab_size}-{digest}"
    if (folder / REPORT_FILE).is_file():
        say(console, f"data: reusing {folder}")
        return find_files(folder)
    with console.status("reading the text"):
        articles = read_articles()[:: max(1, round(1 / preset.text_share))]
    corpus = Corpus(lambda: articles, vocabulary=None, vocabulary_size=wanted.vocab_size)
    with SampleBar(console) as bar:
        report = make_corpus(corpus, samples, folder, processes=1, bar=bar, overwrite=True)
    say(console, report)
    return find_files(folder)


def verify_devices(
    settings: Settings, files: PretrainingFiles, steps: int, console: Console
) -> int:
    """Compare both devices; exit code 0 if they agree, 1 if not."""
    with PretrainingLoader(
        files.training,
        settings.max_predictions_per_seq,
        settings.max_position_embeddings - 1,
        settings.step_rows,
        settings.seed,
        workers=0,
        vocabulary_rows=settings.vocab_size,
    ) as batches:
        return 0 if verify(settings, list(islice(batches, steps)), console) else 1


if __name__ == "__main__":
    sys.exit(main())
