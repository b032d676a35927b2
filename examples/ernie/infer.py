"""Save an ERNIE-style classifier as an inference model, load it, and run it on the IPU."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paddle
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from examples import command
from examples.display import CompileBar, StepBar, say
from examples.ernie.data import CLASSES, Sentences, encoded, read_sentences, train_tokenizer
from examples.ernie.model import ErnieConfig, ErnieForSequenceClassification, feeds

DESCRIPTION = """\
Take an ERNIE-style encoder from training to inference on the IPU.

The encoder learns, for half a minute, to tell sentences of news from sentences of an encyclopaedia;
both come inside the package gensim. It is saved by paddle.static.save_inference_model and loaded
again by load_inference_model, as a service would. The loaded program is compiled for the IPU once
for each batch size, and classifies sentences that it was not trained on. Paddle's CPU executor runs
the same loaded program, and both results are compared.
"""

EPILOG = """\
what it writes into the output folder:
  ernie.json or ernie.pdmodel, ernie.pdiparams   the inference model

exit codes:
  0 done; 1 the IPU and the CPU differ; 2 wrong arguments, a missing package or file;
  130 interrupted

examples:
  python -m examples.ernie.infer
  python -m examples.ernie.infer --fp16          in half, as IPUs like it
  python -m examples.ernie.infer --text "The minister said talks would resume on Monday."
  python -m examples.ernie.infer --smoke         seconds, to see that it runs
"""

# Largest difference of logits between the devices, in parts of their norm.
AGREE = {False: 1e-5, True: 2e-2}  # by whether in half
TEST_SENTENCES = 256
PEAK_RATE = 5e-4
TEXTS = (
    "The Prime Minister told reporters on Monday that talks will resume next week.",
    "A triangle is a polygon with three edges and three vertices.",
    "The first settlements in the region date from the Bronze Age.",
)
Arrays = dict[str, NDArray[np.int64]]


def train(
    config: ErnieConfig, samples: Arrays, labels: NDArray[np.int64], steps: int, console: Console
) -> paddle.static.Scope:
    """The scope with the trained weights; the training runs on the IPU too."""
    rows, per_run = 32, 5
    scope = paddle.static.Scope()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        paddle.seed(1)
        inputs = feeds(config)
        label = paddle.static.data("label", [-1, 1], "int64")
        logits = ErnieForSequenceClassification(config)(*inputs)
        loss = paddle.nn.functional.cross_entropy(logits, label)
        accuracy = paddle.static.accuracy(logits, label)
        # Norms behind the residuals need a slow start.
        rate = paddle.optimizer.lr.LinearWarmup(PEAK_RATE, steps // 5, 0.0, PEAK_RATE)
        paddle.optimizer.AdamW(rate).minimize(loss)
    executor = paddle.static.Executor(paddle.set_device("ipu"))
    with paddle.static.scope_guard(scope):
        executor.run(startup)
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=rows)
        with CompileBar(console, "the training program") as bar:
            strategy.set_options({"batches_per_step": per_run, "compilation_progress_logger": bar})
            compiler = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
            program = compiler.compile([*samples, "label"], [loss, accuracy])
        rng = np.random.default_rng(1)
        means: list[NDArray[np.float32]] = []
        with StepBar(console, "training", steps) as steps_bar:
            for _ in range(steps // per_run):
                chosen = rng.integers(0, len(labels), rows * per_run)
                feed = {name: array[chosen] for name, array in samples.items()}
                feed["label"] = labels[chosen, None]
                fetched = executor.run(program, feed=feed, fetch_list=[loss, accuracy])
                for _ in range(per_run):
                    rate.step()  # a rate is read once a run
                means.append(np.array([np.mean(value) for value in fetched]))
                mean, share = np.mean(means[-5:], axis=0)
                steps_bar.advance(f"loss: {mean:.3f} accuracy: {share:.3f}", per_run)
        program.weights_to_host()
    return scope


def save(config: ErnieConfig, scope: paddle.static.Scope, prefix: Path) -> None:
    """Write the inference model: the program without dropout, loss and optimizer."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        inputs = feeds(config)
        network = ErnieForSequenceClassification(config)
        network.eval()
        logits = network(*inputs)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with paddle.static.scope_guard(scope):
        executor = paddle.static.Executor(paddle.CPUPlace())
        paddle.static.save_inference_model(str(prefix), inputs, [logits], executor, program=main)


class Service:
    """A loaded inference model on a device, for batches of one size."""

    def __init__(
        self, prefix: Path, rows: int, device: str, console: Console, *, fp16: bool = False
    ) -> None:
        self.rows = rows
        self._scope = paddle.static.Scope()
        self._executor = paddle.static.Executor(paddle.set_device(device))
        with paddle.static.scope_guard(self._scope):
            loaded = paddle.static.load_inference_model(str(prefix), self._executor)
            self._program, names, self._fetches = loaded
            if device == "ipu":
                strategy = paddle.static.IpuStrategy()
                strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=rows)
                strategy.set_precision_config(enable_fp16=fp16)
                with CompileBar(console, f"for batches of {rows}") as bar:
                    strategy.set_options({"compilation_progress_logger": bar})
                    compiler = paddle.static.IpuCompiledProgram(
                        self._program, ipu_strategy=strategy
                    )
                    self._program = compiler.compile(names, self._fetches)

    def run(self, samples: Arrays) -> NDArray[np.float32]:
        """Logits of any number of samples; a last batch that is not full is filled up."""
        count = len(samples["input_ids"])
        results = []
        for first in range(0, count, self.rows):
            batch = {name: a[first : first + self.rows] for name, a in samples.items()}
            missing = self.rows - len(batch["input_ids"])
            batch = {name: np.pad(a, ((0, missing), (0, 0))) for name, a in batch.items()}
            with paddle.static.scope_guard(self._scope):
                (logits,) = self._executor.run(self._program, feed=batch, fetch_list=self._fetches)
            results.append(np.asarray(logits, np.float32))
        return np.concatenate(results)[:count]


def timed(service: Service, samples: Arrays) -> tuple[NDArray[np.float32], float]:
    """(logits, seconds of a batch), after a batch to warm up."""
    service.run({name: array[: service.rows] for name, array in samples.items()})
    begin = time.perf_counter()
    logits = service.run(samples)
    batches = -(-len(samples["input_ids"]) // service.rows)
    return logits, (time.perf_counter() - begin) / batches


def compare(
    prefix: Path,
    samples: Arrays,
    labels: NDArray[np.int64],
    sizes: Sequence[int],
    console: Console,
    *,
    fp16: bool,
) -> bool:
    """Run the loaded model on both devices and print how they do; True if they agree."""
    table = Table("batch", "IPU ms", "IPU texts/s", "CPU ms", "accuracy", "logits differ by")
    agree = True
    for rows in sizes:
        ipu, ipu_seconds = timed(Service(prefix, rows, "ipu", console, fp16=fp16), samples)
        cpu, cpu_seconds = timed(Service(prefix, rows, "cpu", console), samples)
        distance = float(np.linalg.norm(ipu - cpu) / np.linalg.norm(cpu))
        agree = agree and distance <= AGREE[fp16]
        table.add_row(
            str(rows),
            f"{ipu_seconds * 1e3:.2f}",
            f"{rows / ipu_seconds:,.0f}",
            f"{cpu_seconds * 1e3:.2f}",
            f"{(ipu.argmax(axis=1) == labels).mean():.3f}",
            f"{distance:.1e}",
        )
    console.print(table)
    verdict = "agree" if agree else "DIFFER"
    say(
        console,
        f"IPU{' in half' * fp16} and CPU {verdict}: logits within {AGREE[fp16]:.0e} of their norm"
        f"{'' if agree else ' were expected'}",
    )
    return agree


def run(options: argparse.Namespace, console: Console) -> int:
    """All of it; the exit code."""
    small = options.smoke
    config = ErnieConfig(
        vocab_size=400 if small else 2000,
        hidden_size=32 if small else 128,
        num_hidden_layers=1 if small else 2,
        num_attention_heads=4,
        intermediate_size=64 if small else 512,
        sequence_length=24 if small else 48,
        num_classes=len(CLASSES),
    )
    with console.status("reading the text"):
        sentences: Sentences = read_sentences(200 if small else 4000, seed=0)
        tokenizer = train_tokenizer(sentences.texts, config.vocab_size, config.sequence_length)
        samples = encoded(tokenizer, sentences.texts)
    test = min(TEST_SENTENCES, len(sentences.texts) // 4)
    say(
        console,
        f"{len(sentences.texts) - test:,} sentences of news and of an encyclopaedia to train on, "
        f"{test} others to classify, {config.sequence_length} tokens each",
    )
    training = {name: array[test:] for name, array in samples.items()}
    scope = train(config, training, sentences.labels[test:], options.steps, console)
    prefix: Path = options.output / "ernie"
    save(config, scope, prefix)
    files = ", ".join(sorted(path.name for path in prefix.parent.glob("ernie.*")))
    say(console, f"saved {files} in {prefix.parent}; running the loaded model on IPU")

    held_out = {name: array[:test] for name, array in samples.items()}
    labels = sentences.labels[:test]
    agree = compare(prefix, held_out, labels, options.batch_sizes, console, fp16=options.fp16)
    texts = options.text or list(TEXTS)
    service = Service(prefix, len(texts), "ipu", console, fp16=options.fp16)
    for text, logits in zip(texts, service.run(encoded(tokenizer, texts)), strict=True):
        shares = np.exp(logits - logits.max())
        best = int(logits.argmax())
        say(console, f"{CLASSES[best]} ({shares[best] / shares.sum():.0%}): {text}")
    return 0 if agree else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = command.parser_of("examples.ernie.infer", DESCRIPTION, EPILOG, "out/ernie")
    add = parser.add_argument
    add("--smoke", action="store_true", help="one small layer, 10 updates, one batch size")
    add("--steps", type=int, default=200, help="weight updates before saving (default: 200)")
    add(
        "--batch-sizes",
        type=int,
        nargs="+",
        default=[1, 8, 32],
        metavar="N",
        help="batches to compile the loaded model for (default: 1 8 32)",
    )
    add("--fp16", action="store_true", help="run the loaded model in half")
    add("--text", nargs="+", help="sentences of your own to classify")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> None:
    """Change the options to ``--smoke``'s, and check them.

    Raises:
        ValueError: an argument is out of its range; the message names it.
    """
    if options.smoke:
        options.steps, options.batch_sizes = 10, [8]
    if options.steps < 5 or options.steps % 5:
        raise ValueError(
            f"--steps: expected a multiple of 5, the updates of a run, got {options.steps}"
        )
    for rows in options.batch_sizes:
        if rows < 1:
            raise ValueError(f"--batch-sizes: expected 1 or more, got {rows}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse(arguments)

    def work(console: Console) -> int:
        check(options)
        return run(options, console)

    return command.run(None, work)


if __name__ == "__main__":
    sys.exit(main())
