"""Networks cut into stages, and what Paddle's CPU executor makes of a run's batches in sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import paddle

from tests.journeys.training.side_by_side import Built, Pair, build, distance, pair, read, rows

MICRO = 2
"""Rows of a micro-batch."""


def staged(places: Sequence[tuple[int, int]], optimizer: Callable[[], Any]) -> Built:
    """Linear and tanh for each (IPU, stage) of `places`, a weight shared by the first and last.

    x [-1, 8] and y [-1, 1] are fed, the last stage has the mean cross entropy of 4 classes.
    """

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        shared = paddle.create_parameter([8, 8], "float32")
        h = x
        for number, (ipu, stage) in enumerate(places):
            with paddle.static.ipu_shard_guard(ipu, stage) if len(places) > 1 else nullcontext():
                if number == 0:
                    h = paddle.matmul(h, shared)
                h = paddle.tanh(paddle.nn.Linear(8, 8)(h))
                if number == len(places) - 1:
                    logits = paddle.nn.Linear(8, 4)(paddle.matmul(h, shared, transpose_y=True))
                    loss = paddle.nn.functional.cross_entropy(logits, y)
        optimizer().minimize(loss)
        return ["x", "y"], {"loss": loss}, None

    return build(make)


PLACES: Mapping[str, Sequence[tuple[int, int]]] = {
    "one": [(0, 0)],
    "two": [(0, 0), (1, 1)],
    "three on two": [(0, 0), (1, 1), (0, 2)],
    "four": [(0, 0), (1, 1), (2, 2), (3, 3)],
}
"""Stages by a name."""


def compiled(
    built: Built,
    ipus: int,
    *,
    accumulation: int | None,
    replicas: int | None,
    batches: int,
    pipelining: bool,
    options: Mapping[str, Any] | None = None,
    micro: int = MICRO,
    spread: float = 0.3,
) -> Pair:
    """The program beside Paddle's executor; `ipus` are those of a replica."""
    made: dict[str, Any] = {"batches_per_step": batches, "enable_pipelining": pipelining}
    if accumulation is not None:
        made |= {"enable_gradient_accumulation": True, "accumulation_factor": accumulation}
    if replicas is not None:
        made |= {"enable_replicated_graphs": True, "replicated_graph_count": replicas}
    return pair(
        built,
        {**made, **(options or {})},
        num_ipus=ipus * (replicas or 1),
        enable_manual_shard=ipus > 1,
        micro_batch_size=micro,
        spread=spread,
    )


def compare_updates(
    both: Pair,
    feed: Callable[[int, int], Mapping[str, np.ndarray]],
    updates: int = 5,
    tolerance: float = 1e-5,
    except_for: Sequence[str] = (),
) -> None:
    """Weights after at least `updates` updates, beside those of the same batches on the CPU.

    Args:
        both: with a batch for each update.
        feed: makes the feed of a number of rows, by a seed.
        updates: fewest updates.
        tolerance: largest distance, relative to each tensor's norm.
        except_for: names of parameters that are not compared.
    """
    batches = dict(both.program.axes).get("batches_per_step", 1)
    batch = both.program.feeds["x" if "x" in both.program.feeds else "ids"].shape[0]
    for name, number in both.program.axes.items():
        batch *= 1 if name == "batches_per_step" else number
    for run in range(-(-updates // batches)):
        fed = feed(batch * batches, run)
        losses = np.reshape(both.on_ipu(fed)[0], (batches, -1)).mean(1)
        for number, loss in enumerate(losses):
            own = {n: array[number * batch :][:batch] for n, array in fed.items()}
            (expected, *_) = both.on_cpu(own)
            np.testing.assert_allclose(loss, expected, rtol=2e-5)
    both.weights_to_host()
    for name in both.built.parameters:
        if name not in except_for:
            assert distance(read(both.ipu, name), read(both.cpu, name)) <= tolerance, name


def batch_of_rows(count: int, seed: int) -> dict[str, np.ndarray]:
    """A feed of :func:`staged`."""
    return rows(count, seed)
