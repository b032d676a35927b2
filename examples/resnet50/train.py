"""Train ResNet-50 on small images, on one IPU or on a pipeline of two or four."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle.vision.models import ResNet
from paddle.vision.models.resnet import BasicBlock, BottleneckBlock
from rich.console import Console

from examples import command
from examples.command import DivergedError
from examples.display import CompileBar, Panel, StepBar, plot, say
from examples.resnet50.data import CLASSES, batches, feed, read_images, striped_patterns

DESCRIPTION = """\
Train paddle.vision.models' ResNet-50 with SGD, momentum and weight decay.

The images are striped patterns of ten kinds, made up on the spot, or those of two files in the
format of Fashion-MNIST. A weight update sums the gradients of --accumulation micro-batches. With
--num-ipus 2 or 4 the network is cut into as many stages, and the micro-batches follow one another
through them.
"""

EPILOG = """\
what it writes into the output folder:
  resnet.pdparams ...  weights, statistics and the optimizer's state, by paddle.static.save
  losses.png           the loss of every weight update

exit codes:
  0 done; 1 training diverged; 2 wrong arguments, a missing package or file; 130 interrupted

examples:
  python -m examples.resnet50.train                            minutes on two cores
  python -m examples.resnet50.train --num-ipus 4 --fp16        a pipeline of four IPUs, in half
  python -m examples.resnet50.train --smoke                    18 layers, seconds
  python -m examples.resnet50.train --images train-images-idx3-ubyte.gz \\
      --labels train-labels-idx1-ubyte.gz                      Fashion-MNIST's files
  python -m examples.resnet50.train --image-size 224 --micro-batch 4       ImageNet's shape
"""

# The last of the groups on each IPU; groups: stem, four groups of blocks, classifier.
STAGES = {1: (5,), 2: (2, 5), 4: (1, 2, 3, 5)}
HELD_OUT_SHARE = 0.1


def network(model: Any, image: Any, num_ipus: int) -> Any:
    """Logits; the groups of layers are placed on IPUs, each IPU a stage of the pipeline."""
    groups = [
        lambda x: model.maxpool(model.relu(model.bn1(model.conv1(x)))),
        model.layer1,
        model.layer2,
        model.layer3,
        model.layer4,
        lambda x: model.fc(paddle.flatten(model.avgpool(x), 1)),
    ]
    value = image
    for number, group in enumerate(groups):
        place = sum(number > end for end in STAGES[num_ipus])
        with paddle.static.ipu_shard_guard(index=place, stage=place):
            value = group(value)
    return value


@dataclass
class Built:
    """A program with what its runs need; ``fetches`` are loss and accuracy."""

    main: Any
    startup: Any
    fetches: list[Any]
    model: Any
    schedule: Any = None


def build(options: argparse.Namespace, *, training: bool) -> Built:
    """The training program, or the one for evaluation; both share weights by their names."""
    schedule: Any = None
    num_ipus = options.num_ipus if training else 1
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        paddle.seed(options.seed)
        size = options.image_size
        image = paddle.static.data("image", [-1, 3, size, size], "float32")
        label = paddle.static.data("label", [-1, 1], "int64")
        block = BottleneckBlock if options.depth >= 50 else BasicBlock
        model = ResNet(block, options.depth, num_classes=CLASSES)
        if not training:
            model.eval()
        logits = network(model, image, num_ipus)
        with paddle.static.ipu_shard_guard(index=num_ipus - 1, stage=num_ipus - 1):
            loss = paddle.nn.functional.cross_entropy(logits, label)
            accuracy = paddle.static.accuracy(logits, label)
        if training:
            warmup = max(1, options.steps // 10)
            rate = options.learning_rate
            decay = paddle.optimizer.lr.CosineAnnealingDecay(rate, max(1, options.steps - warmup))
            schedule = paddle.optimizer.lr.LinearWarmup(decay, warmup, rate / 10, rate)
            # Paddle's CPU executor has no accumulation: it takes a batch at once.
            optimizer = paddle.optimizer.Momentum(schedule, 0.9, weight_decay=1e-4)
            optimizer.minimize(loss)
    return Built(main, startup, [loss, accuracy], model, schedule)


def initialise(built: Built, executor: Any) -> None:
    """Run the startup program; every block of layers then starts as the identity.

    A zero in place of a one as scale of each block's last normalisation keeps the first steps of a
    deep network stable (Goyal et al., arXiv:1706.02677, section 5.1).
    """
    executor.run(built.startup)
    norms = [
        getattr(layer, "bn3" if isinstance(layer, BottleneckBlock) else "bn2").weight
        for layer in built.model.sublayers()
        if isinstance(layer, BottleneckBlock | BasicBlock)
    ]
    zeros = {weight.name: np.zeros(weight.shape, np.float32) for weight in norms}
    paddle.static.set_program_state(built.main, zeros)


def compile_for_ipu(
    program: Any,
    fetches: list[Any],
    options: argparse.Namespace,
    bar: CompileBar,
    *,
    training: bool,
) -> Any:
    """The program as the executor runs it: a weight update a run, in evaluation a micro-batch."""
    strategy = paddle.static.IpuStrategy()
    num_ipus = options.num_ipus if training else 1
    strategy.set_graph_config(
        num_ipus=num_ipus,
        is_training=training,
        micro_batch_size=options.micro_batch,
        enable_manual_shard=num_ipus > 1,  # the places that ipu_shard_guard gave
    )
    accumulation = options.accumulation if training else 1
    strategy.set_pipelining_config(
        enable_pipelining=num_ipus > 1,
        batches_per_step=1,
        enable_gradient_accumulation=accumulation > 1,
        accumulation_factor=accumulation,
    )
    strategy.set_precision_config(enable_fp16=options.fp16)
    settings: dict[str, Any] = {"compilation_progress_logger": bar}
    if options.fp16 and training:
        # Small gradients would be zero in half: the loss is multiplied, the update divided.
        settings["loss_scaling"] = 128.0
    strategy.set_options(settings)
    compiler = paddle.static.IpuCompiledProgram(program, ipu_strategy=strategy)
    return compiler.compile(["image", "label"], fetches)


def train(
    executor: Any,
    program: Any,
    fetches: list[Any],
    schedule: Any,
    data: tuple[NDArray[np.float32], NDArray[np.int64]],
    options: argparse.Namespace,
    console: Console,
) -> list[float]:
    """All weight updates; the loss of each."""
    rows = options.micro_batch * options.accumulation
    feeds = batches(*data, rows, options.seed)
    curve: list[float] = []
    accuracies: list[float] = []
    begin = time.perf_counter()
    with StepBar(console, "training", options.steps) as bar:
        for step in range(1, options.steps + 1):
            fetched = executor.run(program, feed=next(feeds), fetch_list=fetches)
            # The IPU gives a value for each micro-batch.
            loss, accuracy = (float(np.mean(value, dtype=np.float32)) for value in fetched)
            if not math.isfinite(loss):
                raise DivergedError(
                    f"step {step}: expected a finite loss, got {loss}; lower --learning-rate"
                )
            schedule.step()
            curve.append(loss)
            accuracies.append(accuracy)
            seconds = time.perf_counter() - begin
            bar.advance(
                f"{seconds:.0f}s loss: {np.mean(curve[-10:]):.3f} "
                f"accuracy: {np.mean(accuracies[-10:]):.3f} {rows * step / seconds:.1f} images/s"
            )
    return curve


def evaluate(
    executor: Any,
    program: Any,
    fetches: list[Any],
    data: tuple[NDArray[np.float32], NDArray[np.int64]],
    rows: int,
) -> tuple[float, float]:
    """(loss, accuracy) over the whole batches of the test images."""
    pixels, labels = data
    results = []
    for first in range(0, len(labels) - rows + 1, rows):
        part = slice(first, first + rows)
        fetched = executor.run(program, feed=feed(pixels[part], labels[part]), fetch_list=fetches)
        results.append([float(np.mean(value, dtype=np.float32)) for value in fetched])
    loss, accuracy = np.mean(results, axis=0)
    return float(loss), float(accuracy)


def images_of(
    options: argparse.Namespace,
) -> tuple[
    tuple[NDArray[np.float32], NDArray[np.int64]], tuple[NDArray[np.float32], NDArray[np.int64]]
]:
    """(training images and labels, test images and labels)."""
    if options.images is not None:
        pixels, labels = read_images(options.images, options.labels, options.image_size)
        order = np.random.default_rng(0).permutation(len(labels))
        pixels, labels = pixels[order], labels[order]
    else:
        count = 200 if options.smoke else 2000
        pixels, labels = striped_patterns(count, options.image_size, seed=0)
    first = round(len(labels) * HELD_OUT_SHARE)
    rows = options.micro_batch * options.accumulation
    if len(labels) - first < rows or first < options.micro_batch:
        raise ValueError(
            f"--micro-batch and --accumulation: expected an update of at most the "
            f"{len(labels) - first} training images, and a micro-batch of at most the {first} test "
            f"images, got {options.micro_batch} x {options.accumulation}"
        )
    return (pixels[first:], labels[first:]), (pixels[:first], labels[:first])


def run(options: argparse.Namespace, console: Console) -> int:
    """Train, evaluate, save, plot; the exit code."""
    training, test = images_of(options)
    on_ipu = options.device == "ipu"
    built = build(options, training=True)
    main, fetches = built.main, built.fetches
    count = sum(math.prod(p.shape) for p in main.all_parameters() if not p.stop_gradient)
    ipus = f"{options.num_ipus} IPU{'s' * (options.num_ipus > 1)}"
    where = f"running on {ipus}" if on_ipu else "running on Paddle's CPU executor"
    precision = "half" if options.fp16 else "float32"
    say(console, f"ResNet-{options.depth} of {count:,} parameters, {precision}, {where}")
    say(
        console,
        f"{len(training[1]):,} training images of {options.image_size} x {options.image_size}, "
        f"{options.micro_batch} x {options.accumulation} of them in a weight update",
    )
    executor = paddle.static.Executor(paddle.set_device(options.device))
    initialise(built, executor)

    runnable = main
    if on_ipu:
        with CompileBar(console, "the training program") as bar:
            runnable = compile_for_ipu(main, fetches, options, bar, training=True)
    curve = train(executor, runnable, fetches, built.schedule, training, options, console)

    evaluation = build(options, training=False)
    runnable, fetches = evaluation.main, evaluation.fetches
    if on_ipu:
        with CompileBar(console, "the evaluation program") as bar:
            runnable = compile_for_ipu(runnable, fetches, options, bar, training=False)
    loss, accuracy = evaluate(executor, runnable, fetches, test, options.micro_batch)
    say(console, f"test images: accuracy {accuracy:.3f}, loss {loss:.4g}")

    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    paddle.static.save(main, str(output / "resnet"))
    steps = range(1, len(curve) + 1)
    points = {f"test, accuracy {accuracy:.3f}": loss}
    panel = Panel("loss", {"training": curve}, points=points)
    plot(output / "losses.png", steps, panel, window=5)
    say(console, f"weights {output / 'resnet.pdparams'}, loss plot {output / 'losses.png'}")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = command.parser_of("examples.resnet50.train", DESCRIPTION, EPILOG, "out/resnet50")
    command.add_device(parser)
    add = parser.add_argument
    add("--num-ipus", type=int, choices=STAGES, default=1, help="stages, an IPU each (default: 1)")
    add("--fp16", action="store_true", help="compute in half, with a loss scale of 128")
    add("--depth", type=int, choices=(18, 34, 50, 101), default=50, help="layers (default: 50)")
    add("--image-size", type=int, default=32, help="pixels a side (default: 32)")
    add("--images", type=Path, metavar="FILE", help="images in the idx format of Fashion-MNIST")
    add("--labels", type=Path, metavar="FILE", help="their classes, in the same format")
    add("--micro-batch", type=int, default=16, help="images of a micro-batch (default: 16)")
    add("--accumulation", type=int, help="micro-batches of an update (default: 2 x --num-ipus)")
    add("--steps", type=int, default=60, help="weight updates (default: 60)")
    add("--learning-rate", type=float, default=0.02, help="peak rate (default: 0.02)")
    add("--seed", type=int, default=1, help="of weights and order (default: 1)")
    add("--smoke", action="store_true", help="18 layers, 3 updates of small images")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> None:
    """Change the options to ``--smoke``'s, and check them.

    Raises:
        ValueError: an argument is out of its range; the message names it.
    """
    if options.smoke:
        options.depth, options.image_size, options.steps = 18, 16, 3
        options.micro_batch = 4
    if options.accumulation is None:
        options.accumulation = 2 * options.num_ipus
    names = ("image_size", "micro_batch", "accumulation", "steps")
    command.check_least(options, dict.fromkeys(names, 1))
    command.check_positive(options, "learning_rate")
    if (options.images is None) != (options.labels is None):
        raise ValueError("--images and --labels: expected both or neither")
    if options.device == "cpu" and (options.num_ipus > 1 or options.fp16):
        raise ValueError("--num-ipus and --fp16: Paddle's CPU executor has neither; leave them out")
    least = 2 * options.num_ipus - 1
    if options.accumulation < least:
        raise ValueError(
            f"--accumulation: a pipeline over {options.num_ipus} IPUs has {least} stages, forward "
            f"and backward; expected as many micro-batches or more, got {options.accumulation}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse(arguments)

    def work(console: Console) -> int:
        check(options)
        return run(options, console)

    return command.run(options.device, work, interrupted="interrupted; nothing was saved")


if __name__ == "__main__":
    sys.exit(main())
