"""Accumulation, replicas, stages and batches of a run change no number but by rounding.

Weights are compared with those of Paddle's CPU executor, which takes the same batches one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.journeys.placement.networks import (
    PLACES,
    batch_of_rows,
    compare_updates,
    compiled,
    staged,
)
from tests.journeys.training import tiny_bert
from tests.journeys.training.side_by_side import read, write

pytestmark = pytest.mark.usefixtures("static_mode")

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: paddle.optimizer.SGD(0.1),
    "adam": lambda: paddle.optimizer.Adam(0.01),
}
MEAN_STRATEGY = "mean_accumulation_and_replication_reduction_strategy"
REDUCTION = "accumulation_and_replication_reduction_type"
RUNNING, POST = 0, 1


def equivalent(
    stages: str,
    accumulation: int | None,
    replicas: int | None,
    batches: int,
    optimizer: str,
    strategy: int = POST,
) -> None:
    places = PLACES[stages]
    both = compiled(
        staged(places, OPTIMIZERS[optimizer]),
        1 + max(ipu for ipu, _ in places),
        accumulation=accumulation,
        replicas=replicas,
        batches=batches,
        pipelining=len(places) > 1 and accumulation is not None,
        options={MEAN_STRATEGY: strategy},
    )
    compare_updates(both, batch_of_rows)


@pytest.mark.parametrize(
    ("stages", "accumulation", "replicas", "batches", "optimizer", "strategy"),
    [
        ("one", 4, None, 1, "adam", POST),
        ("one", None, 2, 5, "sgd", POST),
        ("one", 3, 2, 2, "adam", RUNNING),
        ("two", 3, None, 5, "adam", POST),
        ("two", None, 2, 1, "sgd", RUNNING),
        ("three on two", 5, 2, 2, "sgd", POST),
        ("four", 7, None, 1, "adam", RUNNING),
        ("four", 8, 2, 3, "adam", POST),
    ],
)
def test_weights_are_those_of_the_cpu(
    stages: str,
    accumulation: int | None,
    replicas: int | None,
    batches: int,
    optimizer: str,
    strategy: int,
) -> None:
    equivalent(stages, accumulation, replicas, batches, optimizer, strategy)


@pytest.mark.parametrize(
    ("accumulation", "replicas", "batches"),
    [(3, 2, 1), pytest.param(4, None, 2, marks=pytest.mark.thorough),
     pytest.param(None, 2, 3, marks=pytest.mark.thorough)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["Sum", "NoReduction"])
def test_sums_of_gradients_take_as_many_times_the_step(
    accumulation: int | None, replicas: int | None, batches: int, kind: str
) -> None:
    stages = "two" if accumulation else "one"
    both = compiled(
        staged(PLACES[stages], lambda: paddle.optimizer.SGD(0.02)),
        len(PLACES[stages]),
        accumulation=accumulation,
        replicas=replicas,
        batches=batches,
        pipelining=accumulation is not None,
        options={REDUCTION: {"Sum": 0, "NoReduction": 2}[kind]},
    )
    rate = read(both.cpu, "learning_rate_0") * (accumulation or 1) * (replicas or 1)
    write(both.cpu, "learning_rate_0", rate)
    compare_updates(both, batch_of_rows)


@pytest.mark.thorough
@settings(max_examples=40, database=None)
@given(
    stages=st.sampled_from(list(PLACES)),
    extra=st.one_of(st.none(), st.integers(0, 5)),
    replicas=st.one_of(st.none(), st.integers(1, 4)),
    batches=st.integers(1, 5),
    optimizer=st.sampled_from(list(OPTIMIZERS)),
    strategy=st.sampled_from([RUNNING, POST]),
)
def test_any_combination(
    stages: str,
    extra: int | None,
    replicas: int | None,
    batches: int,
    optimizer: str,
    strategy: int,
) -> None:
    # Micro-batches enough for the pipeline, and some more.
    least = 2 * len(PLACES[stages]) - 1
    accumulation = None if extra is None else least + extra
    with paddle.utils.unique_name.guard():
        equivalent(stages, accumulation, replicas, batches, optimizer, strategy)


def text(count: int, seed: int) -> dict[str, np.ndarray]:
    """Sentences with as many hidden tokens in each row: the mean of means is the mean then."""
    feed = tiny_bert.sentences(seed, count)
    labels = feed["mlm_labels"]
    tokens = np.where(labels != tiny_bert.IGNORED, labels, feed["ids"])
    hidden = np.zeros(tokens.shape, bool)
    hidden[:, 1:9:2] = True
    ids = np.where(hidden, 0, tokens)
    return {**feed, "ids": ids, "mlm_labels": np.where(hidden, tokens, tiny_bert.IGNORED)}


@pytest.mark.parametrize(
    ("ipus", "accumulation", "replicas", "batches", "optimizer"),
    [
        (2, 3, 2, 1, "sgd"),
        pytest.param(2, 3, 2, 3, "adam", marks=pytest.mark.thorough),
        pytest.param(1, 4, 2, 1, "adam", marks=pytest.mark.thorough),
        pytest.param(2, 3, None, 5, "sgd", marks=pytest.mark.thorough),
        pytest.param(4, 8, 2, 5, "adam", marks=pytest.mark.thorough),
        pytest.param(1, 8, None, 2, "sgd", marks=pytest.mark.thorough),
        pytest.param(2, None, 4, 5, "adam", marks=pytest.mark.thorough),
    ],
)
def test_bert(
    ipus: int, accumulation: int | None, replicas: int | None, batches: int, optimizer: str
) -> None:
    make = {"sgd": lambda: paddle.optimizer.SGD(0.02), "adam": lambda: paddle.optimizer.Adam(1e-3)}
    model = tiny_bert.pretraining(make[optimizer])
    both = compiled(
        model.built,
        ipus,
        accumulation=accumulation,
        replicas=replicas,
        batches=batches,
        pipelining=ipus > 1 and accumulation is not None,
        options={"need_avg_shard": ipus > 1},
        spread=0.1,
    )
    compare_updates(both, text, except_for=model.key_biases)
