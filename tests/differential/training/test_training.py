"""A few random trainings of a fixed seed; and that a training which is off by little is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.differential.training import explained, sides, verdict
from tests.differential.training.choices import Choice
from tests.differential.training.explore import Outcome, explore, shrunk, tried
from tests.differential.training.recipe import GRADIENT, SCORES, Training, drawn, varied

pytestmark = pytest.mark.newest

CASES, SEED = 5, 1
LEAST_THAT_AGREE = 2
"""Older versions of Paddle refuse some."""

PLAIN = Training(7, Choice("rows"), (Choice("linear"),), Choice("mse_loss"), Choice("Adam"), runs=2)


@pytest.mark.long
def test_random_trainings_of_a_fixed_seed() -> None:
    tally = explore(CASES, SEED)
    assert not tally.findings, tally.findings[0].detail
    assert tally.outcomes["agrees"] >= LEAST_THAT_AGREE, tally.outcomes


def test_a_number_gives_the_same_training_again() -> None:
    first, again = ([varied(drawn(3, n), 4) for n in range(50)] for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    "wrong",
    [
        {"optimizer": Choice("Adam", {"epsilon": 1e-4})},
        {"decay": Choice("L2", {"coeff": 0.001})},
        {"clip": Choice("global norm", {"most": 10.0})},
    ],
)
def test_what_is_off_by_little_differs(wrong: dict[str, Any], monkeypatch: Any) -> None:
    on_paddle = sides.OnPaddle
    monkeypatch.setattr(sides, "OnPaddle", lambda training: on_paddle(replace(training, **wrong)))
    found = tried(PLAIN)
    # A clip above the norm of all gradients changes nothing.
    assert found.name == ("agrees" if "clip" in wrong else "differs"), found.detail


def test_a_finding_is_made_smaller() -> None:
    class Finder:
        """Finds fault with every training that has momentum in it."""

        def tried(self, training: Training) -> Outcome:
            return Outcome("differs" if training.optimizer.name == "Momentum" else "agrees", "x")

    large = replace(drawn(1, 0), optimizer=Choice("Momentum", {"use_nesterov": True}))
    smaller, _ = shrunk(Finder(), large, Outcome("differs", "x"))
    assert smaller == Training(
        large.seed, Choice(large.source.name), (), Choice("mse_loss"), Choice("Momentum")
    )


def test_a_gradient_of_rounding_alone_is_changed_by_what_rounding_leaves() -> None:
    gradients = {"a": np.full(4, 3.0, np.float32), "b": np.zeros(4, np.float32)}
    changed = [verdict.Nudge(False, seed).of_gradients(gradients, 1.0) for seed in range(20)]
    sizes = {float(np.abs(each["b"]).max()) for each in changed}
    assert {0.0} < sizes and max(sizes) < 1e-6
    assert all(0 < np.abs(each["a"] - 3).max() < 1e-5 for each in changed)


def test_where_all_gradients_cancel_the_loss_says_what_rounding_is() -> None:
    gradients = {"a": np.zeros(4, np.float32)}
    changed = [verdict.Nudge(False, seed).of_gradients(gradients, 2.0) for seed in range(20)]
    assert 0 < max(np.abs(each["a"]).max() for each in changed) < 1e-6


def test_a_scaled_gradient_beyond_half_diverges() -> None:
    arrays = {f"{GRADIENT}w": np.float32([600]), "loss": np.float32([600])}
    assert not verdict.diverged(arrays, half=True, scale=100.0)
    assert verdict.diverged(arrays, half=True, scale=128.0)
    assert not verdict.diverged(arrays, half=False, scale=128.0)


def test_only_a_loss_of_bounded_logarithms_is_explained() -> None:
    training = replace(PLAIN, loss=Choice("nll"))
    far, near = ({SCORES: np.float32([[0, high, 1]])} for high in (65, 63))
    assert explained.reason(training, far, {"loss"})
    assert not explained.reason(training, near, {"loss"})
    assert not explained.reason(training, far, {"loss", "linear_0.w_0"})
    assert not explained.reason(PLAIN, far, {"loss"})
