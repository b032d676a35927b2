"""What a batching runner does where clients and its model share the processors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from paddle_ipu.instances.awake import Watch
from paddle_ipu.instances.spared_processors import COUNT
from paddle_ipu.serving import BatchingRunner
from paddle_ipu.serving.sleepers import Sleeper, Sleepers

Array = np.ndarray[Any, Any]
ROWS = 4
LONG = 60_000.0
"""Milliseconds: batches that do not fill up never go."""


def doubled(feed: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": 2 * feed["x"]}


def rows(mark: float) -> dict[str, Array]:
    return {"x": np.full(ROWS, mark)}


def serve(model: Any, **options: Any) -> BatchingRunner:
    return BatchingRunner(model, micro_batch=ROWS, inputs={"x": ([], "float64")}, **options)


def test_short_calls_leave_a_processor_to_clients_of_the_next_batch() -> None:
    spared: list[int] = []

    def noting(feed: Mapping[str, Array]) -> dict[str, Array]:
        spared.append(COUNT.value)
        return doubled(feed)

    with serve(noting) as runner:
        batcher = runner._batcher
        for took, waking in ((0.0, 1), (0.0, 2), (1.0, 2)):
            row = [Sleeper() for _ in range(waking)]
            batcher._sleepers = Sleepers()
            batcher._sleepers.wake(row)
            batcher._took = took
            runner.submit(rows(1)).result(20)
    # One client does not make half of the next batch, and a call of a second needs all processors.
    assert spared == [0, 1, 0]
    assert COUNT.value == 0


@pytest.mark.parametrize("is_called", [True, False])
def test_a_runner_that_waits_awake_misses_nothing(
    monkeypatch: pytest.MonkeyPatch, is_called: bool
) -> None:
    waits: list[float] = []

    def look(number: Any, nanoseconds: int) -> int:
        waits.append(nanoseconds)
        ends = time.monotonic() + (0.2 if is_called else 0)
        while not number.contents.value and time.monotonic() < ends:
            time.sleep(0)
        return int(number.contents.value)

    monkeypatch.setattr(Watch, "look", look)
    with serve(doubled, timeout_ms=LONG) as runner:
        for mark in range(50):
            runner._batcher._is_soon = True
            assert (runner.run(rows(mark))["y"] == 2 * mark).all()
    assert waits
    assert max(waits) <= 300_000
