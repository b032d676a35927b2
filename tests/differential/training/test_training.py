"""A few random trainings of a fixed seed; and that a training which is off by little is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.differential.training import sides
from tests.differential.training.choices import Choice
from tests.differential.training.explore import Outcome, explore, shrunk, tried
from tests.differential.training.recipe import Training, drawn, varied

pytestmark = pytest.mark.newest

CASES, SEED = 5, 1
LEAST_THAT_AGREE = 2
"""Older versions of Paddle refuse some."""

PLAIN = Training(7, Choice("rows"), (Choice("linear"),), Choice("mse_loss"), Choice("Adam"), runs=2)


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
