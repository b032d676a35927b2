"""Train a small LLaMA-like decoder on English text, then write text with it, token by token."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from tokenizers import Tokenizer

from examples import command
from examples.command import DivergedError
from examples.display import CompileBar, Panel, StepBar, plot, say
from examples.text_generation.data import (
    END,
    Corpus,
    evaluation_batches,
    read_corpus,
    training_batches,
)
from examples.text_generation.model import DecoderConfig
from examples.text_generation.session import Device, Sampling, Session, Training

DESCRIPTION = """\
Train a small decoder (RMS norm, rotary positions, grouped queries, SwiGLU) on English Wikipedia and
news that gensim installs, for a minute or two on two cores, and let it write.

It writes on the IPU token by token, several texts at once: the first takes the likeliest token each
time, the others are drawn by --seed. Keys and values of earlier tokens are in a cache of fixed
length on the device. At the end Paddle's CPU executor writes the same texts from the same weights,
and both are compared.
"""

EPILOG = """\
what it writes into the output folder:
  decoder.pdparams, decoder.tokenizer.json   weights and vocabulary, for --load
  losses.png                                 the loss of every weight update

exit codes:
  0 done; 1 training diverged, or the two devices wrote different texts;
  2 wrong arguments, a missing package or file; 130 interrupted

examples:
  python -m examples.text_generation.generate
  python -m examples.text_generation.generate --load out/text_generation/decoder \\
      --prompt "In the north of" --tokens 100 --seed 7
  python -m examples.text_generation.generate --smoke      seconds, to see that it runs
"""

AGREE = 1e-4  # largest difference of logits, in parts of their norm


@dataclass(frozen=True)
class Size:
    """What ``--smoke`` changes."""

    config: DecoderConfig
    training: Training
    text_share: float


DEFAULT = Size(
    DecoderConfig(
        vocabulary=1024,
        hidden=128,
        layers=3,
        heads=4,
        kv_heads=2,
        feed_forward=320,
        context=128,
    ),
    Training(rows=16, steps=1500, steps_per_run=10, learning_rate=3e-3, seed=1),
    text_share=1.0,
)
SMOKE = Size(
    DecoderConfig(
        vocabulary=300, hidden=16, layers=2, heads=4, kv_heads=2, feed_forward=32, context=32
    ),
    Training(rows=4, steps=20, steps_per_run=5, learning_rate=3e-3, seed=1),
    text_share=0.05,
)


@dataclass(frozen=True)
class Written:
    """What a device wrote, with what it saw: tokens, logits, steps a second."""

    tokens: NDArray[np.int64]
    logits: NDArray[np.float32]
    steps_per_second: float


def train(session: Session, corpus: Corpus, output: Path, console: Console) -> None:
    """Train, evaluate on the held-out articles, save and plot."""
    training, context = session.training, session.config.context
    batches = training_batches(corpus.training, training.rows, context, training.seed)
    curve: list[float] = []
    with CompileBar(console, "the training program") as compiling:
        session.compile_training(compiling)
    begin = time.perf_counter()
    with StepBar(console, "training", training.steps) as bar:
        for losses in session.train(batches):
            curve += losses
            if not math.isfinite(losses[-1]):
                raise DivergedError(
                    f"update {len(curve)}: expected a finite loss, got {losses[-1]}; "
                    "lower --learning-rate"
                )
            seconds = time.perf_counter() - begin
            done = len(curve) * training.rows * context
            bar.advance(
                f"{seconds:.0f}s loss: {np.mean(curve[-50:]):.3f} {done / seconds:,.0f} tokens/s",
                len(losses),
            )
    sets = evaluation_batches(corpus.held_out, training.rows, context)
    points = {}
    if sets:
        with CompileBar(console, "the evaluation program") as compiling:
            loss = session.evaluate(sets, compiling)
        bits = loss / math.log(2) * len(corpus.held_out) / corpus.held_out_characters
        points["held-out articles"] = loss
        say(
            console,
            f"held-out articles: loss {loss:.3f} a token, perplexity {math.exp(loss):.1f}; "
            f"{bits:.2f} bits a character",
        )
    session.save(output / "decoder")
    corpus.tokenizer.save(str(output / "decoder.tokenizer.json"))
    steps = range(1, len(curve) + 1)
    panel = Panel("loss of a token (nats)", {"training": curve}, points=points)
    plot(output / "losses.png", steps, panel)
    say(console, f"weights {output / 'decoder.pdparams'}, loss plot {output / 'losses.png'}")


def write(
    session: Session,
    sampling: Sampling,
    prompt: Sequence[int],
    draws: NDArray[np.float32],
    console: Console,
) -> Written:
    """Let a session's device write after the prompt, the same prompt in each row."""
    with CompileBar(console, "the generation program") as bar:
        generator = session.generator(sampling, bar)
    rows = sampling.rows
    list(generator.run([[0]] * rows, draws[: sampling.steps_per_run]))  # allocates and warms up
    begin = time.perf_counter()
    parts = list(generator.run([prompt] * rows, draws))
    seconds = time.perf_counter() - begin
    tokens, logits = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Written(tokens, logits, len(draws) / seconds)


def print_texts(
    tokenizer: Tokenizer, prompt: Sequence[int], written: Written, console: Console
) -> None:
    """Each row's prompt and what was written after it, up to the end of an article."""
    end = tokenizer.token_to_id(END)
    for row in range(written.tokens.shape[1]):
        ids = [*prompt, *written.tokens[len(prompt) - 1 :, row].tolist()]
        ids = ids[: ids.index(end)] if end in ids else ids
        how = "greedy" if row == 0 else f"sample {row}"
        say(console, f"\n{how}: {tokenizer.decode(ids)}")
    say(console)


def compare(ipu: Written, cpu: Written, console: Console) -> bool:
    """Print how far both devices agree; True if they wrote the same, from the same logits."""
    same = int((ipu.tokens == cpu.tokens).sum())
    worst = max(
        float(np.linalg.norm(a - b) / np.linalg.norm(b))
        for a, b in zip(ipu.logits, cpu.logits, strict=True)
    )
    agree = same == cpu.tokens.size and worst <= AGREE
    say(
        console,
        f"IPU and CPU {'agree' if agree else 'DIFFER'}: {same} of {cpu.tokens.size} tokens are the "
        f"same, logits differ by at most {worst:.1e} of their norm",
    )
    return agree


def run(options: argparse.Namespace, size: Size, console: Console) -> int:
    """All of it; the exit code."""
    device: Device = options.device
    corpus: Corpus | None = None
    if options.load is None:
        with console.status("reading the text"):
            corpus = read_corpus(size.config.vocabulary, size.text_share)
        say(
            console,
            f"{corpus.articles} articles, {corpus.characters:,} characters of English, "
            f"{len(corpus.training):,} tokens of {corpus.vocabulary} kinds to train on",
        )
        tokenizer = corpus.tokenizer
    else:
        tokenizer = Tokenizer.from_file(f"{options.load}.tokenizer.json")
    config = replace(size.config, vocabulary=tokenizer.get_vocab_size())
    prompt = tokenizer.encode(options.prompt).ids
    left = config.context - len(prompt)
    if not prompt or options.tokens > left:
        raise ValueError(
            f"--prompt and --tokens: the prompt has {len(prompt)} tokens and the cache "
            f"{config.context}; expected 1 to {left} more, got {options.tokens}"
        )
    session = Session(config, size.training, device)
    count = sum(math.prod(p.shape) for p in session.main.all_parameters())
    where = "the IPU" if device == "ipu" else "Paddle's CPU executor"
    say(console, f"decoder of {count:,} parameters, running on {where}")
    if corpus is not None:
        train(session, corpus, options.output, console)
    else:
        session.load(options.load)

    rows = 1 + options.samples
    sampling = Sampling(rows, options.tokens_per_run, options.temperature, options.top_k)
    # A run makes a fixed number of steps: the last one is filled up, what it adds is cut off.
    steps = len(prompt) + options.tokens - 1
    padded = min(-(-steps // sampling.steps_per_run) * sampling.steps_per_run, config.context)
    draws = np.random.default_rng(options.seed).random((padded, rows), np.float32)
    draws = np.minimum(draws, 0.99999)
    draws[:, 0] = -1  # greedy
    written = write(session, sampling, prompt, draws, console)
    written = replace(written, tokens=written.tokens[:steps], logits=written.logits[:steps])
    print_texts(tokenizer, prompt, written, console)
    say(
        console,
        f"{rows} texts at once on {where}: {written.steps_per_second * rows:,.0f} tokens/s, "
        f"{1e3 / written.steps_per_second:.2f} ms a step",
    )
    if device == "cpu":
        return 0
    prefix = options.load or options.output / "decoder"
    peer = Session(config, size.training, "cpu")
    peer.load(prefix)
    beside = write(peer, sampling, prompt, draws[:steps], console)
    say(
        console,
        f"{rows} texts at once on Paddle's CPU executor: "
        f"{beside.steps_per_second * rows:,.0f} tokens/s",
    )
    return 0 if compare(written, beside, console) else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = command.parser_of(
        "examples.text_generation.generate", DESCRIPTION, EPILOG, "out/text_generation"
    )
    command.add_device(parser)
    add = parser.add_argument
    add("--smoke", action="store_true", help="a tiny decoder, 20 updates; sizes below change too")
    add("--load", type=Path, metavar="PREFIX", help="write with saved weights, without training")
    add("--steps", type=int, help="weight updates (default: 1500)")
    add("--learning-rate", type=float, help="AdamW's peak rate (default: 0.003)")
    add(
        "--prompt", default="The government", help='how the texts begin (default: "The government")'
    )
    add("--tokens", type=int, help="tokens to write (default: 60)")
    add("--samples", type=int, default=2, help="texts beside the greedy one (default: 2)")
    add("--temperature", type=float, default=0.8, help="of the samples (default: 0.8)")
    add("--top-k", type=int, default=40, help="the likeliest tokens that may come (default: 40)")
    add("--seed", type=int, default=0, help="of the samples (default: 0)")
    add(
        "--tokens-per-run",
        type=int,
        default=16,
        help="steps that a run of the IPU makes by itself (default: 16)",
    )
    return parser.parse_args(arguments)


def checked(options: argparse.Namespace) -> Size:
    """The sizes of the command line.

    Raises:
        ValueError: an argument is out of its range; the message names it.
    """
    size = SMOKE if options.smoke else DEFAULT
    if options.tokens is None:
        options.tokens = 10 if options.smoke else 60
    least = {"tokens": 1, "samples": 0, "top_k": 1, "tokens_per_run": 1, "seed": 0}
    command.check_least(options, least)
    command.check_positive(options, "temperature", "learning_rate")
    if options.top_k > size.config.vocabulary:
        raise ValueError(
            f"--top-k: expected at most the {size.config.vocabulary} tokens of the vocabulary, "
            f"got {options.top_k}"
        )
    if size.config.context % options.tokens_per_run:
        raise ValueError(
            f"--tokens-per-run: expected a divisor of the cache's {size.config.context} tokens, "
            f"got {options.tokens_per_run}"
        )
    if options.load is not None:
        for ending in (".pdparams", ".tokenizer.json"):
            if not Path(f"{options.load}{ending}").is_file():
                raise ValueError(f"--load: there is no file {options.load}{ending}")
    training = size.training
    if options.steps is not None:
        if options.steps < training.steps_per_run or options.steps % training.steps_per_run:
            raise ValueError(
                f"--steps: expected a multiple of {training.steps_per_run}, the updates of a run, "
                f"got {options.steps}"
            )
        training = replace(training, steps=options.steps)
    if options.learning_rate is not None:
        training = replace(training, learning_rate=options.learning_rate)
    return replace(size, training=training)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse(arguments)

    def work(console: Console) -> int:
        size = checked(options)
        options.output.mkdir(parents=True, exist_ok=True)
        return run(options, size, console)

    return command.run(options.device, work, interrupted="interrupted; nothing was saved")


if __name__ == "__main__":
    sys.exit(main())
