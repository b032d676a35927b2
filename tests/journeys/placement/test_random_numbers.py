"""Dropout over stages, replicas, micro-batches and batches: masks of their own, from one seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.placement.networks import compiled
from tests.journeys.training.side_by_side import Built, build, read

pytestmark = pytest.mark.usefixtures("static_mode")

WIDTH, REPLICAS, MICRO_BATCHES, BATCHES = 64, 2, 3, 2


def _dropping() -> Built:
    """Ones through a dropout in each of two stages; both results, and a loss that trains."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, WIDTH], "float32")
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            w = paddle.create_parameter([WIDTH], "float32")
            first = paddle.nn.functional.dropout(x, 0.5)
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            second = paddle.nn.functional.dropout(x, 0.5)
            loss = paddle.mean(first * w + second * w)
        paddle.optimizer.SGD(0.1).minimize(loss)
        return ["x"], {"first": first, "second": second}, None

    return build(make)


def _run(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Both masks of two runs, [2, runs, batches, micro-batches, replicas, 64]; the weight."""
    both = compiled(
        _dropping(), 2, accumulation=MICRO_BATCHES, replicas=REPLICAS, batches=BATCHES,
        pipelining=True, options={"random_seed": seed}, micro=1,
    )  # fmt: skip
    x = np.ones((BATCHES * MICRO_BATCHES * REPLICAS, WIDTH), np.float32)
    runs = [np.stack(both.on_ipu({"x": x})) for _ in range(2)]
    both.weights_to_host()
    return np.stack(runs, axis=1), read(both.ipu, both.built.parameters[0])


def test_masks_differ_and_repeat_with_the_seed() -> None:
    masks, weight = _run(7)
    assert masks.shape == (2, 2, BATCHES, MICRO_BATCHES, REPLICAS, 1, WIDTH)
    assert set(np.unique(masks)) == {0.0, 2.0}
    rows = masks.reshape(-1, WIDTH)
    assert len({row.tobytes() for row in rows}) == len(rows)
    # Independent: any two agree in half of their places.
    agree = (rows[:, None] == rows[None]).mean(-1)[np.triu_indices(len(rows), 1)]
    assert agree.mean() == pytest.approx(0.5, abs=0.01)
    assert agree.max() < 0.85
    again, same = _run(7)
    np.testing.assert_array_equal(again, masks)
    np.testing.assert_array_equal(same, weight)
    other, _ = _run(8)
    assert not np.array_equal(other, masks)
