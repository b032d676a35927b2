"""Random operators: what makes them repeat, and where they draw anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from paddle.base import core

from tests.journeys.training.side_by_side import Built, build, pair

ROWS = {"x": np.ones((2, 50), np.float32)}


def _random(training: bool = True) -> Built:
    """Two draws without a seed of their own, one with."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 50], "float32")
        draws = {
            "first": paddle.rand([50]),
            "second": paddle.rand([50]),
            "seeded": paddle.uniform([50], seed=3),
        }
        weight = paddle.create_parameter([1], "float32")
        loss = (x * weight).mean() + sum(draw.mean() for draw in draws.values())
        if training:
            paddle.optimizer.SGD(0.0).minimize(loss)
        return ["x"], {**draws, "loss": loss}, None

    return build(make)


@pytest.fixture(scope="module")
def built() -> Built:
    return _random()


def _draws(built: Built, steps: int = 2, **options: Any) -> list[list[np.ndarray]]:
    both = pair(built, options, micro_batch_size=2)
    return [both.on_ipu(ROWS)[:3] for _ in range(steps)]


def test_operators_and_runs_draw_their_own_numbers(built: Built) -> None:
    once, again = _draws(built)
    assert (once[0] != once[1]).all()
    assert (once[0] != again[0]).all()


def test_an_operator_with_a_seed_repeats_in_every_run(built: Built) -> None:
    once, again = _draws(built, random_seed=1)
    (other,) = _draws(built, steps=1, random_seed=2)
    np.testing.assert_array_equal(once[2], again[2])
    np.testing.assert_array_equal(once[2], other[2])


def test_the_option_makes_programs_repeat(built: Built) -> None:
    np.testing.assert_array_equal(_draws(built, random_seed=7), _draws(built, random_seed=7))


def test_paddles_seed_makes_programs_repeat(built: Built) -> None:
    drawn = []
    for seed in (5, 5, 6):
        paddle.seed(seed)
        drawn.append(_draws(built))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0][0][0] != drawn[2][0][0]).all()


def test_micro_batches_draw_anew() -> None:
    options = {"enable_gradient_accumulation": True, "accumulation_factor": 3}
    both = pair(_random(), options, micro_batch_size=2)
    first, _, seeded = both.on_ipu({"x": np.ones((6, 50), np.float32)})[:3]
    first, seeded = first.reshape(3, 50), seeded.reshape(3, 50)
    assert len({turn.tobytes() for turn in first}) == 3
    np.testing.assert_array_equal(seeded[0], seeded[1])


def test_inference_draws_too() -> None:
    both = pair(_random(training=False), is_training=False, micro_batch_size=2)
    once, again = (both.on_ipu(ROWS)[0] for _ in range(2))
    assert (once != again).all()


def _first(both: Any, runs: int) -> list[np.ndarray]:
    return [both.on_ipu(ROWS)[0] for _ in range(runs)]


def test_paddles_seed_between_runs_starts_again(built: Built) -> None:
    both = pair(built, micro_batch_size=2)
    drawn = []
    for seed in (5, 5, 6):
        paddle.seed(seed)
        drawn.append(_first(both, 2))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0][0] != drawn[2][0]).all()


def test_paddles_state_goes_on_in_another_program(built: Built) -> None:
    both, other = (pair(built, micro_batch_size=2) for _ in range(2))
    both.on_ipu(ROWS)
    state = paddle.get_rng_state()
    expected = _first(both, 2)
    paddle.set_rng_state(state)
    np.testing.assert_array_equal(_first(other, 2), expected)
    assert other.program.random_seed is None


def test_programs_take_turns_at_paddles_generator(built: Built) -> None:
    both, other = (pair(built, micro_batch_size=2) for _ in range(2))
    paddle.seed(5)
    turns = [*_first(both, 1), *_first(other, 1), *_first(both, 1)]
    paddle.seed(5)
    np.testing.assert_array_equal(_first(both, 3), turns)


def test_with_the_option_the_seed_of_the_next_run_is_what_goes_on(built: Built) -> None:
    both = pair(built, {"random_seed": 2**33 + 7}, micro_batch_size=2)
    both.on_ipu(ROWS)
    seed = both.program.random_seed
    paddle.seed(5)
    expected = _first(both, 2)
    paddle.seed(6)
    resumed = pair(built, {"random_seed": seed}, micro_batch_size=2)
    np.testing.assert_array_equal(_first(resumed, 2), expected)
    assert seed == 2**33 + 7 + 2**32 + 1
    assert resumed.program.random_seed == seed + 2 * (2**32 + 1)


def test_the_programs_own_seed_makes_runs_repeat() -> None:
    built = _dropping(0.5, random_seed=11)
    once, again = (pair(built, micro_batch_size=2) for _ in range(2))
    masks = _first(once, 2)
    assert (masks[0] != masks[1]).any()
    np.testing.assert_array_equal(_first(again, 2), masks)
    assert once.program.random_seed == 11 + 2 * (2**32 + 1)


@pytest.mark.parametrize("training", [True, False])
def test_a_step_without_random_numbers_leaves_paddles_generator_alone(training: bool) -> None:
    # Dropout of an inference program draws nothing, as in a clone for tests.
    both = pair(_dropping(0.0 if training else 0.5), is_training=training, micro_batch_size=2)
    paddle.seed(5)
    _first(both, 2)
    left = core.default_cpu_generator().random()
    paddle.seed(5)
    assert core.default_cpu_generator().random() == left


def _dropping(probability: float, random_seed: int = 0) -> Built:
    """Dropout of x."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        paddle.static.default_main_program().random_seed = random_seed
        x = paddle.static.data("x", [-1, 50], "float32")
        weight = paddle.create_parameter([1], "float32")
        dropped = paddle.nn.functional.dropout(x, probability)
        loss = (dropped * weight).mean()
        paddle.optimizer.SGD(0.0).minimize(loss)
        return ["x"], {"dropped": dropped, "loss": loss}, None

    return build(make)
