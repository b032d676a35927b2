"""Pretrain BERT on real English text, on the IPU or on Paddle's CPU executor."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

import paddle
from rich.console import Console

from examples.bert.compare import comparable, verify
from examples.bert.data import DataSettings, PretrainingFiles, find_files, prepare
from examples.bert.files import DataError
from examples.bert.folder_lock import only_run_in
from examples.bert.layout import fixed_batches, hide_every_masked_word, move_masked_to_front
from examples.bert.loader import PretrainingLoader
from examples.bert.plot import plot_losses
from examples.bert.presets import PRESETS, Preset
from examples.bert.progress import CompileBar, TrainingBar
from examples.bert.sample_files import read_samples
from examples.bert.session import Session, StepValues
from examples.bert.unigram import UnigramReference, unigram_reference

DESCRIPTION = """\
Pretrain BERT (masked words and next sentence) with a static Paddle program.

The text is English Wikipedia and news that gensim installs; a WordPiece vocabulary is trained on
it. The prepared data stays in the output folder and is reused. At the end the loss on articles that
were held out is printed beside the entropy of the masked words' frequencies: a network that learnt
only which words are common stops there, one that reads the context ends below.
"""

EPILOG = """\
what it writes into the output folder:
  data/...                  vocabulary and samples, hdf5 in the layout of NVIDIA's BERT data
  step_N.*, final_step_N.*  checkpoints of paddle.static.save
  log.jsonl                 losses, accuracies, latencies, throughput, every --logging-steps
  losses.png                the loss curves

exit codes:
  0 done; 1 the losses differ (--verify) or training diverged; 2 wrong arguments or missing data;
  130 interrupted, after naming the last checkpoint

examples:
  python -m examples.bert.pretrain                   the default, minutes on two cores
  python -m examples.bert.pretrain --preset smoke    a few seconds, to see that it runs
  python -m examples.bert.pretrain --verify          the first steps of both devices, compared
  python -m examples.bert.pretrain --preset base-phase1 --input-dir wikipedia_hdf5
"""


@dataclass
class Curve:
    """The losses of every step so far, and the checkpoint written last."""

    mlm: list[float] = field(default_factory=list)
    nsp: list[float] = field(default_factory=list)
    checkpoint: Path | None = None


class DivergedError(ArithmeticError):
    """A loss stopped being a number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse(arguments)
    console = Console()
    if (options.device == "ipu" or options.verify) and not paddle.is_compiled_with_ipu():
        say(
            console,
            "This Paddle has no IPU backend: install paddle_ipu beside it, or use --device cpu.",
        )
        return 2
    try:
        with only_run_in(options.output, "--output"):
            return work(options, console)
    except DataError as error:
        say(console, str(error))
        return 2


def work(options: argparse.Namespace, console: Console) -> int:
    """Verify or pretrain, as the options say; the exit code."""
    try:
        preset = chosen_preset(options)
        files = pretraining_files(options, preset, console)
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        say(console, str(error))
        return 2
    paddle.enable_static()
    if options.verify:
        return verify_devices(preset, files, options.verify_steps, console)
    return pretrain(preset, files, options, console)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    presets = "\n".join(f"  {name:<12} {preset.about}" for name, preset in PRESETS.items())
    parser = argparse.ArgumentParser(
        prog="python -m examples.bert.pretrain",
        description=DESCRIPTION,
        epilog=f"presets:\n{presets}\n\n{EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--preset",
        choices=PRESETS,
        default="small",
        help="sizes and hyper-parameters (default: small)",
    )
    add("--device", choices=("ipu", "cpu"), default="ipu", help="where to train (default: ipu)")
    add(
        "--output",
        type=Path,
        default=Path("out/bert"),
        help="folder to write into (default: out/bert)",
    )
    add("--input-dir", type=Path, help='hdf5 files to use instead, "training" in their names')
    add("--load", type=Path, metavar="PREFIX", help="start from a checkpoint's weights")
    add("--verify", action="store_true", help="compare the first steps of both devices and stop")
    add("--verify-steps", type=int, default=5, metavar="N", help="how many steps (default: 5)")
    add("--steps", type=int, help="weight updates, instead of the preset's")
    add("--micro-batch", type=int, help="samples in a micro-batch, instead of the preset's")
    add(
        "--accumulation", type=int, help="micro-batches in a weight update, instead of the preset's"
    )
    add("--learning-rate", type=float, help="peak learning rate, instead of the preset's")
    add("--num-ipus", type=int, help="IPUs of one replica, instead of the preset's")
    add("--seed", type=int, help="of weights, data and dropout, instead of the preset's")
    add("--save-steps", type=int, help="steps between checkpoints, instead of the preset's")
    add(
        "--logging-steps", type=int, default=10, help="steps between lines of the log (default: 10)"
    )
    return parser.parse_args(arguments)


def chosen_preset(options: argparse.Namespace) -> Preset:
    """The preset with the command line's changes."""
    preset = PRESETS[options.preset]
    names = (
        "steps",
        "micro_batch",
        "accumulation",
        "learning_rate",
        "num_ipus",
        "seed",
        "save_steps",
    )
    changes = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for name in (*names[:5], "save_steps"):
        if changes.get(name, 1) <= 0:
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag}: expected more than 0, got {changes[name]}")
    for name in ("logging_steps", "verify_steps"):
        if getattr(options, name) <= 0:
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag}: expected more than 0, got {getattr(options, name)}")
    preset = replace(preset, **changes)
    if preset.model.layers < preset.num_ipus - 1:
        raise ValueError(
            f"--num-ipus: expected at most {preset.model.layers + 1} for {preset.model.layers} "
            f"encoder layers, beside the embedding's IPU, got {preset.num_ipus}"
        )
    stages = preset.num_ipus + 1 if preset.num_ipus > 1 else 1
    if options.device == "ipu" and preset.accumulation < stages:
        raise ValueError(
            f"--accumulation: expected at least the {stages} pipeline stages of {preset.num_ipus} "
            f"IPUs, got {preset.accumulation}"
        )
    if preset.warmup >= preset.steps:
        preset = replace(preset, warmup=preset.steps // 10)
    return comparable(preset) if options.verify else preset


def pretraining_files(
    options: argparse.Namespace, preset: Preset, console: Console
) -> PretrainingFiles:
    """The files of ``--input-dir``, or those prepared in the output folder."""
    if options.input_dir is not None:
        return find_files(options.input_dir)
    model = preset.model
    settings = DataSettings(
        model.vocabulary_rows,
        model.sequence_length,
        model.max_predictions,
        preset.passes,
        preset.text_share,
        preset.held_out_share,
        preset.seed,
    )
    digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode()).hexdigest()[:8]
    folder = (
        options.output
        / "data"
        / f"seq{model.sequence_length}-vocab{model.vocabulary_rows}-{digest}"
    )
    with console.status("preparing the text"):
        return prepare(settings, folder, lambda line: say(console, line))


def training_data(preset: Preset, files: PretrainingFiles, workers: int = 2) -> PretrainingLoader:
    """The endless batches of a preset."""
    model = preset.model
    return PretrainingLoader(
        files.training,
        model.max_predictions,
        model.max_positions - 1,
        preset.batch_size,
        preset.seed,
        workers=workers,
        vocabulary_rows=model.vocabulary_rows,
    )


def verify_devices(preset: Preset, files: PretrainingFiles, steps: int, console: Console) -> int:
    """Compare both devices; exit code 0 if they agree, 1 if not."""
    batches = list(islice(training_data(preset, files, workers=0), steps))
    return 0 if verify(preset, batches, console) else 1


def pretrain(
    preset: Preset, files: PretrainingFiles, options: argparse.Namespace, console: Console
) -> int:
    """Train, evaluate on the held-out articles, save and plot; the exit code."""
    begin = time.perf_counter()
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    curve = Curve()
    try:
        # The loader's processes fill their memory while the program is compiled.
        with training_data(preset, files) as data:
            with CompileBar(console) if options.device == "ipu" else nullcontext() as bar:
                session = Session(preset, options.device, bar)
                if options.load is not None:
                    session.load(options.load)
                session.compile()
            train(session, data, curve, output, options.logging_steps, console)
    except DataError as error:
        say(console, str(error))
        return 2
    except KeyboardInterrupt:
        where = f"last checkpoint: {curve.checkpoint}" if curve.checkpoint else "no checkpoint yet"
        say(console, f"interrupted after {len(curve.mlm)} steps; {where}")
        return 130
    except DivergedError as error:
        say(console, str(error))
        return 1
    held_out = evaluate(session, files, console)
    reference = held_out_report(preset, files, held_out, console)
    plot_losses(
        output / "losses.png",
        curve.mlm,
        curve.nsp,
        reference.entropy,
        held_out[0].mlm_loss if held_out else None,
    )
    say(
        console,
        f"checkpoint {curve.checkpoint}, loss plot {output / 'losses.png'}; "
        f"{time.perf_counter() - begin:.0f} s after the data was ready",
    )
    return 0


def say(console: Console, text: str) -> None:
    """Print text as it is: paths keep their brackets, long lines stay whole."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def train(
    session: Session,
    data: PretrainingLoader,
    curve: Curve,
    output: Path,
    logging_steps: int,
    console: Console,
) -> None:
    """All steps of the preset, with log and checkpoints; ``curve`` grows as it runs."""
    preset = session.preset
    samples = data.samples
    with (
        (output / "log.jsonl").open("w", encoding="utf-8") as log,
        TrainingBar(console, preset.steps) as bar,
    ):
        for step in range(1, preset.steps + 1):
            start = time.perf_counter()
            feeds = next(data)
            ready = time.perf_counter()
            values = session.step(feeds)
            end = time.perf_counter()
            if not (math.isfinite(values.mlm_loss) and math.isfinite(values.nsp_loss)):
                raise DivergedError(
                    f"step {step}: expected finite losses, "
                    f"got MLM {values.mlm_loss}, NSP {values.nsp_loss}; "
                    "lower --learning-rate"
                )
            curve.mlm.append(values.mlm_loss)
            curve.nsp.append(values.nsp_loss)
            throughput = preset.batch_size / (end - start)
            bar.advance_step(values, throughput, session.learning_rate)
            if step % logging_steps == 0 or step == preset.steps:
                record = {
                    "epoch": step * preset.batch_size // samples,
                    "global_step": step,
                    "loss/MLM": values.mlm_loss,
                    "loss/NSP": values.nsp_loss,
                    "accuracy/MLM": values.mlm_accuracy,
                    "accuracy/NSP": values.nsp_accuracy,
                    "latency/read": ready - start,
                    "latency/train": end - ready,
                    "latency/e2e": end - start,
                    "throughput": throughput,
                    "learning_rate": session.learning_rate,
                }
                print(json.dumps(record), file=log, flush=True)
            if step % preset.save_steps == 0 and step < preset.steps:
                save(session, curve, output / f"step_{step}")
    save(session, curve, output / f"final_step_{preset.steps}")


def save(session: Session, curve: Curve, prefix: Path) -> None:
    """Write a checkpoint and remember it, once it is whole."""
    session.save(prefix)
    curve.checkpoint = prefix


def evaluate(session: Session, files: PretrainingFiles, console: Console) -> list[StepValues]:
    """Held-out values with the usual masks and with all words hidden; empty without a file."""
    if files.held_out is None:
        return []
    preset = session.preset
    model = preset.model
    feeds = move_masked_to_front(
        read_samples(files.held_out), model.max_predictions, model.max_positions - 1
    )
    sets = [fixed_batches(f, preset.micro_batch) for f in (feeds, hide_every_masked_word(feeds))]
    if not sets[0]:
        say(console, f"{files.held_out}: fewer samples than a micro-batch of {preset.micro_batch}")
        return []
    with console.status("evaluating on the held-out articles"):
        return session.evaluate(sets)


def held_out_report(
    preset: Preset, files: PretrainingFiles, held_out: list[StepValues], console: Console
) -> UnigramReference:
    """Print the held-out losses beside what word frequencies alone give; returns the latter."""
    training = [read_samples(path)["masked_lm_ids"] for path in files.training]
    words = training[0] if files.held_out is None else read_samples(files.held_out)["masked_lm_ids"]
    reference = unigram_reference(training, words, preset.model.vocabulary_rows)
    if not held_out:
        say(console, "no held-out articles were evaluated")
        return reference
    usual, hidden = held_out
    hardest = max(usual.mlm_loss, hidden.mlm_loss)
    bar = min(reference.entropy, reference.held_out)
    side = "below" if hardest < bar else "NOT below"
    lines = (
        "on the held-out articles:",
        f"  MLM loss {usual.mlm_loss:.3f}, accuracy {usual.mlm_accuracy:.1%} "
        "(80 % of the masked words hidden, 10 % replaced, 10 % kept)",
        f"  MLM loss {hidden.mlm_loss:.3f}, accuracy {hidden.mlm_accuracy:.1%} "
        "(all masked words hidden)",
        f"  NSP loss {usual.nsp_loss:.3f}, accuracy {usual.nsp_accuracy:.1%}",
        "knowing only which words are common:",
        f"  entropy of the masked words' frequencies {reference.entropy:.3f}, "
        f"their cross-entropy on the held-out articles {reference.held_out:.3f}",
        f"the network ends {side} it, by {abs(bar - hardest):.3f} nats with all masked words hidden"
        if hardest == hidden.mlm_loss
        else f"the network ends {side} it, by {abs(bar - hardest):.3f} nats",
    )
    say(console, "\n".join(lines))
    return reference


if __name__ == "__main__":
    sys.exit(main())
