"""A feed holds one whole step; a fetch has an axis for each loop that the strategy asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import FeedError, OptionError
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import Built, build, mlp, pair

pytestmark = pytest.mark.usefixtures("static_mode")

MICRO = 2


def _doubled(training: bool) -> Built:
    """x [-1, 3], its double, and the sum of a micro-batch, through a weight of ones."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 3], "float32")
        ones = paddle.nn.initializer.Constant(1.0)
        w = paddle.create_parameter([3], "float32", default_initializer=ones)
        y = x * w * 2.0
        total = paddle.sum(x * w)
        if training:
            paddle.optimizer.SGD(0.0).minimize(total)
        return ["x"], {"y": y, "total": total}, None

    return build(make)


def _options(batches: int, micro: int | None, replicas: int | None) -> dict[str, Any]:
    made: dict[str, Any] = {"batches_per_step": batches}
    if micro is not None:
        made |= {"enable_gradient_accumulation": True, "accumulation_factor": micro}
    if replicas is not None:
        made |= {"enable_replicated_graphs": True, "replicated_graph_count": replicas}
    return made


@pytest.mark.parametrize(
    ("batches", "micro", "replicas"),
    [
        (1, None, None),
        (3, None, None),
        # The axes of accumulation and replicas are there when their option is on, even if one.
        (1, 1, None),
        (1, None, 1),
        (3, 1, 1),
        (3, None, 2),
        (1, 3, 2),
        (4, 3, 2),
    ],
)
def test_axes_are_batches_micro_batches_and_replicas(
    batches: int, micro: int | None, replicas: int | None
) -> None:
    axes = [batches] * (batches > 1) + [n for n in (micro, replicas) if n is not None]
    both = pair(
        _doubled(training=True),
        _options(batches, micro, replicas),
        spread=0.0,
        num_ipus=replicas or 1,
        micro_batch_size=MICRO,
    )
    rows = int(np.prod(axes)) * MICRO
    x = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
    y, total = both.on_ipu({"x": x})
    # PopART takes and gives micro-batches in this order, the replicas varying fastest.
    own = x.reshape(*axes, MICRO, 3)
    assert list(both.program.axes.values()) == axes
    np.testing.assert_allclose(y, 2 * own, rtol=1e-6)
    np.testing.assert_allclose(total, own.sum((-2, -1)), rtol=1e-5, atol=1e-6)


def test_the_number_of_elements_of_a_feed_decides() -> None:
    both = pair(
        _doubled(training=False),
        {**_options(3, None, 2)},
        spread=0.0,
        num_ipus=2,
        is_training=False,
        micro_batch_size=MICRO,
    )
    x = np.arange(36, dtype=np.float32).reshape(12, 3)
    expected = 2 * x.reshape(3, 2, MICRO, 3)
    for shape in ((12, 3), (3, 2, MICRO, 3), (36,), (6, 6), (1, 12, 3), (3, 4, 3)):
        np.testing.assert_array_equal(both.on_ipu({"x": x.reshape(shape)})[0], expected)
    for shape, message in (
        ((11, 3), "expected 12 rows = micro-batch 2 x batches_per_step 3 x replicated_graph_co"),
        ((4, 9), r"array of shape \[4, 9\], expected \[12, 3\]: one micro-batch is \[2, 3\], tim"),
    ):
        with pytest.raises(FeedError, match=message):
            both.on_ipu({"x": np.zeros(shape, np.float32)})


@pytest.mark.parametrize(
    ("options", "ipus", "message"),
    [
        (
            {"enable_replicated_graphs": True, "replicated_graph_count": 2},
            3,
            r"must be divisible by the replication factor. Set num_ipus \(now 3\) to "
            r"replicated_graph_count \(now 2\) times the IPUs of a replica",
        ),
        (
            {"replicated_graph_count": 2},
            2,
            "enableReplicatedGraphs is false, but replicatedGraphCount > 1. Set "
            r"enable_replicated_graphs to True, or replicated_graph_count \(now 2\) to 1",
        ),
        (
            {"enable_replicated_graphs": True, "replicated_graph_count": 2},
            4,
            r"If virtual graphs are disabled, the replicated graph count \(2\) needs to be equal "
            r"to the number of IPUs \(4\). Set enable_manual_shard .* replicated_graph_count to 4; "
            "or num_ipus to 2",
        ),
        (
            {
                "enable_replicated_graphs": True,
                "replicated_graph_count": 2,
                "enable_manual_shard": True,
                "enable_pipelining": True,
            },
            2,
            r"Pipelining requires more than 1 IPU \(currently 1\)",
        ),
    ],
)
def test_replicas_and_ipus_that_do_not_fit(
    options: Mapping[str, Any], ipus: int, message: str
) -> None:
    refused(OptionError, message, mlp(None), options, num_ipus=ipus, is_training=False)
