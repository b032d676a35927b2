"""``runtime_options.enable_eval``: the training program runs, and nothing it keeps changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import OptionError
from tests.journeys.placement.networks import PLACES, batch_of_rows, compiled, staged
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import (
    Built,
    Pair,
    build,
    mlp,
    pair,
    read,
    rows,
    variables,
)

pytestmark = [
    pytest.mark.usefixtures("static_mode"),
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
]


def evaluating(both: Pair, on: bool) -> None:
    both.compiler._ipu_strategy.set_options({"runtime_options.enable_eval": on})


def kept(both: Pair) -> dict[str, np.ndarray]:
    """Weights, moments, steps and statistics, from the device."""
    both.weights_to_host()
    return {name: read(both.ipu, name) for name in variables(both.built.main)}


def _normalised() -> Built:
    """A network with batch norm, whose statistics a training step writes, and Adam."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        hidden = paddle.nn.BatchNorm1D(16)(paddle.nn.Linear(8, 16)(x))
        loss = paddle.nn.functional.cross_entropy(paddle.nn.Linear(16, 4)(hidden), y)
        paddle.optimizer.Adam(0.05).minimize(loss)
        return ["x", "y"], {"loss": loss}, None

    return build(make)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batches_per_step": 3, "enable_gradient_accumulation": True, "accumulation_factor": 2},
    ],
    ids=["one batch", "three batches of two"],
)
def test_everything_stands_still_until_training_goes_on(options: Mapping[str, Any]) -> None:
    both, beside = (pair(_normalised(), options) for _ in range(2))
    count = 4 * both.program._micro_batches
    both.on_ipu(rows(count))
    evaluating(both, True)
    before, fed = kept(both), rows(count, 1)
    losses = [both.on_ipu(fed)[0] for _ in range(3)]
    np.testing.assert_array_equal(losses[1], losses[0])
    np.testing.assert_array_equal(losses[2], losses[0])
    for name, array in kept(both).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    evaluating(both, False)
    # As if there had been no evaluation.
    first = both.on_ipu(fed)[0]
    np.testing.assert_array_equal(np.ravel(first)[:1], np.ravel(losses[0])[:1])
    beside.on_ipu(rows(count))
    beside.on_ipu(fed)
    for (name, array), other in zip(kept(both).items(), kept(beside).values(), strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-6, err_msg=name)


def test_gradients_and_weights_can_be_fetched() -> None:
    built = mlp(lambda rate: paddle.optimizer.SGD(rate))
    weight = built.parameters[0]
    both = pair(built, fetches=[*built.fetches, weight, f"Gradient___{weight}"])
    plain = both.on_ipu(rows(4), [f"Gradient___{weight}"])[0]
    evaluating(both, True)
    found = [both.on_ipu(rows(4), [weight, f"Gradient___{weight}"]) for _ in range(2)]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert not np.array_equal(found[0][1], plain)
    evaluating(both, False)
    np.testing.assert_allclose(
        both.on_ipu(rows(4), [f"Gradient___{weight}"])[0], found[0][1], rtol=1e-6
    )


def test_the_forward_only_program_of_a_pipeline() -> None:
    both = compiled(
        staged(PLACES["two"], lambda: paddle.optimizer.SGD(0.1)), 2, accumulation=4,
        replicas=None, batches=1, pipelining=True,
        options={"create_implicit_pipelining_fwd_only_program": True},
    )  # fmt: skip
    fed = batch_of_rows(8, 0)
    before = kept(both)
    evaluating(both, True)
    first, second = both.on_ipu(fed)[0], both.on_ipu(fed)[0]
    np.testing.assert_array_equal(first, second)
    for name, array in kept(both).items():
        np.testing.assert_array_equal(array, before[name])
    evaluating(both, False)
    np.testing.assert_allclose(both.on_ipu(fed)[0], first, rtol=1e-6)
    assert not np.allclose(both.on_ipu(fed)[0], first, rtol=1e-6)


def test_a_forward_only_program_needs_a_pipeline() -> None:
    refused(
        OptionError,
        "forward-only program is not supported without implicit pipelining and gradient "
        "accumulation. Set enable_pipelining and enable_gradient_accumulation to True, or",
        mlp(lambda rate: paddle.optimizer.SGD(rate)),
        {"create_implicit_pipelining_fwd_only_program": True},
    )
