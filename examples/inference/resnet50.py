"""The ResNet-50 sample: an image classifier of paddle.vision through paddle.inference."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paddle
from paddle import inference
from paddle.vision import models

from examples.inference.predictors import config_of, milliseconds, run, verdict

DESCRIPTION = """\
Save paddle.vision's ResNet-50 as an inference model and classify images on IPU and CPU.

The weights are random and the images made up, so the classes mean nothing; the logits of the two
devices must agree.
"""

EPILOG = """\
what it writes into the output folder:
  resnet.json or resnet.pdmodel, resnet.pdiparams   the inference model

exit codes:
  0 done; 1 the IPU and the CPU differ; 2 wrong arguments

examples:
  python -m examples.inference.resnet50
  python -m examples.inference.resnet50 --batch 8 --fp16    in half, the model unchanged
  python -m examples.inference.resnet50 --num-ipus 2        cut into two shares
  python -m examples.inference.resnet50 --smoke             18 layers, seconds
"""

# Largest difference of logits, in parts of their norm, by whether in half.
AGREE = {False: 1e-5, True: 2e-2}


def save(prefix: Path, smoke: bool) -> int:
    """Writes the model; gives the size of its images."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    size = 64 if smoke else 224
    main, startup = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.program_guard(main, startup),
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.utils.unique_name.guard(),
    ):
        paddle.seed(1)
        image = paddle.static.data("image", [-1, 3, size, size], "float32")
        network = models.resnet18() if smoke else models.resnet50()
        network.eval()
        logits = network(image)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        paddle.static.save_inference_model(str(prefix), [image], [logits], executor, program=main)
    return size


def main(arguments: Sequence[str] | None = None) -> int:
    """The sample; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.inference.resnet50",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--batch", type=int, default=4, help="images of a run (4)")
    parser.add_argument("--fp16", action="store_true", help="compute in half")
    parser.add_argument("--num-ipus", type=int, default=1, help="IPUs the network is cut over (1)")
    parser.add_argument("--runs", type=int, default=10, help="runs that are timed (10)")
    parser.add_argument("--smoke", action="store_true", help="ResNet-18 on images of 64 x 64")
    parser.add_argument(
        "--output", type=Path, default=Path("out/resnet50_inference"), help="folder"
    )
    options = parser.parse_args(arguments)
    if min(options.batch, options.runs, options.num_ipus) < 1:
        parser.error("--batch, --runs and --num-ipus are at least 1")
    paddle.enable_static()
    prefix = options.output / "resnet"
    size = save(prefix, options.smoke)
    shape = (options.batch, 3, size, size)
    feeds = {"image": np.random.default_rng(1).normal(size=shape).astype(np.float32)}

    config = config_of(prefix)
    config.enable_ipu(options.num_ipus, options.batch)
    config.set_ipu_config(ipu_enable_fp16=options.fp16)
    ipu = inference.create_predictor(config)
    cpu = inference.create_predictor(config_of(prefix))
    got, expected = run(ipu, feeds)[0], run(cpu, feeds)[0]
    apart = float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
    within = AGREE[options.fp16]
    print(f"{options.batch} images of {size} x {size}, logits {list(got.shape)}")
    print(f"IPU {milliseconds(ipu, feeds, options.runs):.1f} ms a batch")
    print(f"CPU {milliseconds(cpu, feeds, options.runs):.1f} ms a batch, Paddle's defaults")
    print(f"classes on the IPU {got.argmax(1).tolist()}, on the CPU {expected.argmax(1).tolist()}")
    print(f"difference {apart:.1e} of the norm, allowed {within:.0e}")
    return verdict(apart, within)


if __name__ == "__main__":
    sys.exit(main())
