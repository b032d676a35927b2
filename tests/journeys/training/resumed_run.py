"""A training run with everything a checkpoint has to keep; a process runs it up to a point.

``whole`` gives the losses of all steps; ``until`` those up to a checkpoint, at which the process
kills itself; ``from`` those from the checkpoint on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F  # noqa: N812

from tests.journeys.training.side_by_side import Built, build, strategy

STEPS = range(8)
KEPT_AFTER = 4
"""The checkpoint is written after this many steps."""


def convolutions() -> Built:
    """Batch norm, dropout, Adam under a scheduler, and a loss scale that adapts."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 2, 5, 5], "float32")
        y = paddle.static.data("y", [4, 1], "int64")
        hidden = F.relu(nn.BatchNorm2D(3)(nn.Conv2D(2, 3, 3)(x)))
        dropped = F.dropout(paddle.flatten(hidden, 1), 0.3)
        loss = F.cross_entropy(nn.Linear(27, 4)(dropped), y)
        rate = paddle.optimizer.lr.LinearWarmup(
            paddle.optimizer.lr.CosineAnnealingDecay(0.05, 8), 3, 0.0, 0.05
        )
        # The scale starts too high, so it is halved at once, and grows again after two steps.
        optimizer = paddle.static.amp.decorate(
            paddle.optimizer.Adam(rate, weight_decay=0.01),
            init_loss_scaling=2.0**24,
            incr_every_n_steps=2,
            decr_every_n_nan_or_inf=1,
            use_dynamic_loss_scaling=True,
        )
        optimizer.minimize(loss)
        return ["x", "y"], {"loss": loss}, rate

    return build(make)


def fed(step: int) -> dict[str, np.ndarray]:
    """What a step is fed."""
    rng = np.random.RandomState(step)
    return {
        "x": rng.standard_normal((4, 2, 5, 5)).astype(np.float32),
        "y": rng.randint(0, 4, (4, 1)).astype(np.int64),
    }


def run(mode: str, path: str, told: Callable[[str], Any]) -> None:
    """Calls `told` with a line for each step: its number and its loss, to the last bit."""
    built = convolutions()
    paddle.seed(3)
    paddle.static.Executor(paddle.CPUPlace()).run(built.startup)
    first, options = 0, {}
    # Paddle 2.6 does not save where its generator stands: the strategy's own seed is kept there.
    by_option = paddle.__version__.startswith("2.")
    if by_option:
        options["random_seed"] = 77
    if mode == "from":
        paddle.static.load(built.main, path)
        kept = paddle.load(path + ".run")
        built.scheduler.set_state_dict(kept["scheduler"])
        first = kept["steps"]
        if by_option:
            options["random_seed"] = kept["random"]
        else:
            paddle.set_rng_state(kept["random"])
    compiler = paddle.static.IpuCompiledProgram(built.main, ipu_strategy=strategy(options))
    program = compiler.compile(built.feeds, built.fetches)
    executor = paddle.static.Executor(paddle.IPUPlace())
    for step in STEPS[first:]:
        (loss,) = executor.run(program, feed=fed(step), fetch_list=built.fetches)
        built.scheduler.step()
        told(f"{step} {loss.tobytes().hex()}\n")
        if mode == "until" and step + 1 == KEPT_AFTER:
            paddle.static.save(built.main, path)
            random = program.random_seed if by_option else paddle.get_rng_state()
            kept = {"scheduler": built.scheduler.state_dict(), "steps": step + 1, "random": random}
            paddle.save(kept, path + ".run")
            os.kill(os.getpid(), signal.SIGKILL)
