"""``synthetic_data_mode``: a step that runs without feeds and brings nothing back."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import FeedError
from tests.journeys.training.side_by_side import mlp, pair, read, rows, snapshot, variables


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_step_needs_no_feed_and_leaves_the_scope_as_it_is(mode: int) -> None:
    both = pair(
        mlp(lambda rate: paddle.optimizer.Adam(rate)),
        {"synthetic_data_mode": mode, "batches_per_step": 2},
    )
    names = variables(both.built.main)
    before = snapshot(both.cpu, names)
    for feed in ({}, rows(8), {"x": np.zeros(3)}):
        loss, logits = both.on_ipu(feed)
        assert loss.shape == (2,)
        assert logits.shape == (2, 4, 4)
        assert not loss.any()
        assert not logits.any()
    both.weights_to_host()
    for name in names:
        np.testing.assert_array_equal(read(both.ipu, name), before[name], err_msg=name)


def test_without_it_a_feed_is_asked_for() -> None:
    both = pair(mlp(None), {"synthetic_data_mode": 0}, is_training=False)
    with pytest.raises(FeedError, match="feeds 'x', 'y' are missing: every feed"):
        both.on_ipu({})
