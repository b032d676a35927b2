"""Threads that run one compiled program: its runs follow one another, none is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import paddle
import pytest

from tests.training.side_by_side import mlp, pair, rows

THREADS, RUNS = 4, 25

pytestmark = pytest.mark.usefixtures("static_mode")


def test_runs_of_several_threads_follow_one_another() -> None:
    both = pair(mlp(lambda rate: paddle.optimizer.Momentum(rate, 0.9)))
    feed = rows(4)
    for _ in range(THREADS * RUNS):
        both.on_cpu(feed)

    def train(_: int) -> None:
        for _ in range(RUNS):
            both.program.run(feed, both.built.fetches)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(train, range(THREADS)))
    assert both.program.report().steps == THREADS * RUNS
    both.assert_equal_weights(1e-4)
