"""Where operators are placed: by guards, on layers and functions, and in equal parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle
import pytest
from paddle.nn import functional as F  # noqa: N812 - Paddle's own abbreviation

from paddle_ipu.errors import InvalidProgramError, OptionError
from tests.journeys.placement.networks import (
    PLACES,
    batch_of_rows,
    compare_updates,
    compiled,
    staged,
)
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import Built, Pair, build, mlp, pair, rows

pytestmark = pytest.mark.usefixtures("static_mode")


def _sgd() -> Any:
    return paddle.optimizer.SGD(0.1)


def places_of(both: Pair) -> list[tuple[int, int]]:
    """(IPU, stage) of each node of the PopART program, in order, repetitions left out."""
    graph = both.program.backend.session._graph
    found = []
    for node in graph:
        place = tuple(
            node.attributes[name].as_int() for name in ("__ipu_number", "__pipeline_stage")
        )
        if not found or found[-1] != place:
            found.append(place)
    return found


def _set_on_layers() -> Built:
    """A layer and a function with places of their own, and what nested guards make of others."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        first = paddle.static.set_ipu_shard(paddle.nn.Linear(8, 8), index=0, stage=0)
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            # A layer that was given a place keeps it under a guard, and so does an inner guard.
            h = first(x)
            h = paddle.tanh(h)
            with paddle.static.ipu_shard_guard(index=0, stage=2):
                h = paddle.nn.Linear(8, 8)(h)
            with paddle.static.ipu_shard_guard(index=1, stage=3):
                h = paddle.tanh(h)
        classify = paddle.static.set_ipu_shard(F.cross_entropy, index=0, stage=4)
        with paddle.static.ipu_shard_guard(index=1, stage=3):
            h = paddle.nn.Linear(8, 4)(h)
        loss = classify(h, y)
        paddle.optimizer.SGD(0.1).minimize(loss)
        return ["x", "y"], {"loss": loss}, None

    return build(make)


def test_layers_functions_and_nested_guards_place_a_program_that_trains() -> None:
    both = compiled(_set_on_layers(), 2, accumulation=9, replicas=None, batches=1, pipelining=True)
    assert places_of(both) == [(0, 0), (1, 1), (0, 2), (1, 3), (0, 4)]
    compare_updates(both, batch_of_rows, updates=2)


@pytest.mark.parametrize("replicas", [None, 2])
def test_parts_of_equal_length(replicas: int | None) -> None:
    both = compiled(
        mlp(lambda rate: paddle.optimizer.SGD(rate)), 3, accumulation=5, replicas=replicas,
        batches=1, pipelining=True, options={"need_avg_shard": True},
    )  # fmt: skip
    assert places_of(both) == [(0, 0), (1, 1), (2, 2)]
    compare_updates(both, batch_of_rows, updates=2)


def test_parts_count_operators_and_override_guards() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = x
        for number in range(7):
            with paddle.static.ipu_shard_guard(index=number % 2):
                y = paddle.tanh(y)
        return ["x"], {"y": y}, None

    both = pair(
        build(make), {"need_avg_shard": True}, num_ipus=3, is_training=False,
        enable_manual_shard=True,
    )  # fmt: skip
    graph = both.program.backend.session._graph
    # Seven operators make parts of two; the last takes what is left over.
    placed = [node.attributes["__ipu_number"].as_int() for node in graph]
    assert placed == [0, 0, 1, 1, 2, 2, 2]
    x = rows(4)["x"]
    expected = x
    for _ in range(7):
        expected = np.tanh(expected)
    np.testing.assert_allclose(both.on_ipu({"x": x})[0], expected, rtol=1e-5)


def test_more_ipus_than_operators() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        return ["x"], {"y": paddle.tanh(x)}, None

    refused(
        InvalidProgramError,
        "need_avg_shard cuts the program into one part for each of 2 IPUs, but it has 1 operator",
        build(make),
        {"need_avg_shard": True},
        num_ipus=2,
        is_training=False,
        enable_manual_shard=True,
    )


@pytest.mark.parametrize(
    ("stages", "options", "ipus", "message"),
    [
        (
            "two",
            {"enable_gradient_accumulation": True, "accumulation_factor": 2},
            2,
            r"depth \(gradient accumulation factor\) must equal at least the number of pipeline "
            r"stages \(3\), got 2: 2 forward stage\(s\) and 1 backward. Set accumulation_factor "
            "to at least 3, or use fewer stages",
        ),
        (
            "three on two",
            {"batches_per_step": 4},
            2,
            r"depth \(batchesPerStep\) must equal at least the number of pipeline stages \(5\)",
        ),
        (
            "four",
            {
                "batches_per_step": 7,
                "enable_replicated_graphs": True,
                "replicated_graph_count": 2,
            },
            6,
            r"assigned to an invalid virtual graph 3. numIPUs = 3 for each replica. Raise num_ipus",
        ),
    ],
)
def test_pipelines_that_do_not_fit(
    stages: str, options: Mapping[str, Any], ipus: int, message: str
) -> None:
    refused(
        InvalidProgramError,
        message,
        staged(PLACES[stages], _sgd),
        {"enable_pipelining": True, **options},
        num_ipus=ipus,
        enable_manual_shard=True,
        micro_batch_size=2,
    )


def test_a_pipeline_without_places() -> None:
    refused(
        OptionError,
        "Pipelining requires more than 1 IPU .* VirtualGraphMode::Off",
        staged(PLACES["two"], _sgd),
        {"enable_pipelining": True},
    )


def test_constants_leave_the_guards_that_are_overridden() -> None:
    """One that is made in a later guard than it is read in goes where it is read."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            scale = paddle.full([1], 3.0)
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            hidden = paddle.tanh(x * scale)
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            y = paddle.exp(paddle.sin(hidden))
        return ["x"], {"y": y}, None

    sharded = pair(
        build(make),
        {"need_avg_shard": True, "enable_pipelining": True, "batches_per_step": 2},
        num_ipus=2, is_training=False, enable_manual_shard=True,
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    (got,) = sharded.on_ipu({"x": x})
    np.testing.assert_allclose(got.reshape(8, 8), np.exp(np.sin(np.tanh(3 * x))), rtol=1e-5)
