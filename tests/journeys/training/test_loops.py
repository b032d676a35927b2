"""Micro-batches, batches per step, gradient accumulation, dropout and inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.training.side_by_side import (
    Built,
    Pair,
    build,
    copied,
    initialised,
    mlp,
    momentum,
    pair,
    read,
    rows,
    sgd,
    snapshot,
    strategy,
    variables,
    write,
)

MEAN, SUM = 1, 0
RUNNING, POST = 0, 1


def _pipelining(batches: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "batches_per_step": batches,
        "enable_gradient_accumulation": factor > 1,
        "accumulation_factor": factor,
        **more,
    }


def _cut(feed: dict[str, np.ndarray], parts: int) -> list[dict[str, np.ndarray]]:
    pieces = {name: np.split(array, parts) for name, array in feed.items()}
    return [{name: pieces[name][index] for name in feed} for index in range(parts)]


# -- micro-batches and batches per step -----------------------------------------------------------


@pytest.mark.parametrize("batch", [-1, 4])
def test_the_micro_batch_takes_the_place_of_a_dynamic_first_dimension(batch: int) -> None:
    both = pair(mlp(sgd, batch=batch), micro_batch_size=3 if batch == -1 else 1)
    rows_of_a_run = 3 if batch == -1 else 4
    cpu, ipu = both.step(rows(rows_of_a_run))
    assert ipu["logits"].shape == (rows_of_a_run, 4)
    np.testing.assert_allclose(ipu["logits"], cpu["logits"], rtol=1e-5, atol=1e-6)


def test_batches_per_step_equal_as_many_steps_of_paddle() -> None:
    both = pair(mlp(momentum), _pipelining(batches=3))
    for run in range(2):
        feed = rows(12, run)
        loss, logits = both.on_ipu(feed)
        assert loss.shape == (3,)
        assert logits.shape == (3, 4, 4)
        for index, part in enumerate(_cut(feed, 3)):
            expected = both.on_cpu(part)
            np.testing.assert_allclose(loss[index], expected[0], rtol=1e-5)
            np.testing.assert_allclose(logits[index], expected[1], rtol=1e-5, atol=1e-6)
    both.assert_equal_weights(1e-5)


def test_feeds_may_carry_the_loops_dimensions() -> None:
    both = pair(mlp(None), _pipelining(batches=3), is_training=False)
    flat = rows(12)
    shaped = {name: array.reshape(3, 4, *array.shape[1:]) for name, array in flat.items()}
    np.testing.assert_array_equal(both.on_ipu(shaped)[1], both.on_ipu(flat)[1])


# -- gradient accumulation ------------------------------------------------------------------------


@pytest.mark.parametrize("strategy_of_mean", [RUNNING, POST])
def test_accumulation_with_mean_equals_the_big_batch(strategy_of_mean: int) -> None:
    both = pair(
        mlp(momentum),
        _pipelining(
            factor=4,
            accumulation_and_replication_reduction_type=MEAN,
            mean_accumulation_and_replication_reduction_strategy=strategy_of_mean,
        ),
        micro_batch_size=2,
    )
    for run in range(4):
        feed = rows(8, run)
        loss, logits = both.on_ipu(feed)
        expected_loss, expected_logits = both.on_cpu(feed)
        assert loss.shape == (4,)
        np.testing.assert_allclose(loss.mean(), expected_loss, rtol=1e-5)
        np.testing.assert_allclose(logits.reshape(8, 4), expected_logits, rtol=1e-4, atol=1e-6)
    both.assert_equal_weights(1e-5)


def test_accumulation_with_sum_adds_the_micro_batches_gradients() -> None:
    options = _pipelining(factor=4, accumulation_and_replication_reduction_type=SUM)
    both = pair(mlp(sgd), options, micro_batch_size=2)
    # The sum of four mean losses is four times the mean over the big batch.
    write(both.cpu, "learning_rate_0", np.float32(0.4))
    for run in range(3):
        both.step(rows(8, run))
    both.assert_equal_weights(1e-5)


def test_fetch_shapes_have_the_batches_before_the_micro_batches() -> None:
    both = pair(mlp(sgd), _pipelining(batches=3, factor=2))
    feed = rows(24)
    loss, logits = both.on_ipu(feed)
    assert loss.shape == (3, 2)
    assert logits.shape == (3, 2, 4, 4)
    for index, part in enumerate(_cut(feed, 3)):
        expected_loss, expected_logits = both.on_cpu(part)
        np.testing.assert_allclose(loss[index].mean(), expected_loss, rtol=1e-5)
        np.testing.assert_allclose(
            logits[index].reshape(8, 4), expected_logits, rtol=1e-5, atol=1e-6
        )
    both.assert_equal_weights(1e-5)


def _with_gradients() -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        loss = paddle.nn.functional.cross_entropy(paddle.nn.Linear(8, 4)(x), y)
        _, pairs = paddle.optimizer.SGD(0.1).minimize(loss)
        (gradient,) = [g for parameter, g in pairs if parameter.name == "linear_0.w_0"]
        return ["x", "y"], {"loss": loss, "gradient": gradient}, None

    return build(make)


def test_fetched_gradients_are_each_micro_batchs_own() -> None:
    both = pair(_with_gradients(), _pipelining(factor=2, loss_scaling=128.0))
    feed = rows(8)
    start = read(both.cpu, "linear_0.w_0"), read(both.cpu, "linear_0.b_0")
    _, gradients = both.on_ipu(feed)
    assert gradients.shape == (2, 8, 4)
    for index, part in enumerate(_cut(feed, 2)):
        for name, array in zip(("linear_0.w_0", "linear_0.b_0"), start, strict=True):
            both.cpu.find_var(name).get_tensor().set(array, paddle.CPUPlace())
        np.testing.assert_allclose(gradients[index], both.on_cpu(part)[1], rtol=1e-5, atol=1e-7)


def test_the_mean_of_fetched_gradients_is_the_update() -> None:
    both = pair(_with_gradients(), _pipelining(batches=2, factor=2), micro_batch_size=2)
    before = read(both.ipu, "linear_0.w_0")
    _, gradients = both.on_ipu(rows(8))
    assert gradients.shape == (2, 2, 8, 4)
    both.weights_to_host()
    expected = before - 0.1 * gradients.mean(1).sum(0)
    np.testing.assert_allclose(read(both.ipu, "linear_0.w_0"), expected, rtol=1e-5, atol=1e-7)


def test_gradients_of_computed_values_and_parameters_by_popart_s_name() -> None:
    built = mlp(sgd)
    logits = built.values["logits"].name
    names = [
        f"Gradient___{logits}",
        f"Gradient___{built.parameters[-1]}",
        built.values["loss"].name,
    ]
    both = pair(built, _pipelining(factor=2, loss_scaling=64.0), fetches=names)
    feed = rows(8)
    of_logits, of_bias, loss = both.on_ipu(feed, names)
    assert (of_logits.shape, of_bias.shape, loss.shape) == ((2, 4, 4), (2, 4), (2,))
    for index, part in enumerate(_cut(feed, 2)):
        scores = _logits(built, both.ipu, part["x"])
        chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        expected = (chances - np.eye(4)[part["y"][:, 0]]) / 4
        np.testing.assert_allclose(of_logits[index], expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(of_bias[index], expected.sum(0), rtol=1e-4, atol=1e-6)


# -- dropout --------------------------------------------------------------------------------------


def _dropout(training: bool = True) -> Built:
    """Two dropouts of ones, and a weight so that there is something to train."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 2000], "float32")
        first = paddle.nn.functional.dropout(x, 0.25)
        second = paddle.nn.functional.dropout(x, 0.25)
        weight = paddle.create_parameter([1], "float32")
        loss = ((first + second) * weight).mean()
        if training:
            paddle.optimizer.SGD(0.0).minimize(loss)
        return ["x"], {"first": first, "second": second, "loss": loss}, None

    return build(make)


@pytest.fixture(scope="module")
def dropout_built() -> Built:
    return _dropout()


ONES = {"x": np.ones((2, 2000), np.float32)}


def _drawn(built: Built, seed: int, steps: int = 3) -> list[list[np.ndarray]]:
    both = pair(built, {"random_seed": seed}, micro_batch_size=2)
    return [both.on_ipu(ONES) for _ in range(steps)]


def test_dropout_repeats_for_an_equal_seed_and_step(dropout_built: Built) -> None:
    once, again, other = (_drawn(dropout_built, seed) for seed in (7, 7, 8))
    for expected, got in zip(once, again, strict=True):
        for one, two in zip(expected, got, strict=True):
            np.testing.assert_array_equal(one, two)
    assert np.any(once[0][0] != other[0][0])
    # Steps and layers draw their own.
    assert np.any(once[0][0] != once[1][0])
    assert np.any(once[1][0] != once[2][0])
    assert np.any(once[0][0] != once[0][1])


def test_dropout_keeps_the_expectation(dropout_built: Built) -> None:
    draws = np.stack([step[0] for step in _drawn(dropout_built, 3)])
    np.testing.assert_allclose(np.unique(draws), [0.0, 1 / 0.75], rtol=1e-6)
    # 12000 draws: four standard deviations of the mean are 0.021.
    assert abs(draws.mean() - 1.0) < 0.021


def test_dropout_draws_anew_in_every_micro_batch() -> None:
    both = pair(_dropout(), {"random_seed": 5, **_pipelining(batches=2, factor=2)})
    first = both.on_ipu({"x": np.ones((16, 2000), np.float32)})[0]
    assert first.shape == (2, 2, 4, 2000)
    turns = first.reshape(4, -1)
    assert len({turn.tobytes() for turn in turns}) == 4


def test_dropout_without_a_seed_differs_between_compilations(dropout_built: Built) -> None:
    one, two = (pair(dropout_built, micro_batch_size=2).on_ipu(ONES)[0] for _ in range(2))
    assert np.any(one != two)


# -- inference ------------------------------------------------------------------------------------


def test_inference_of_the_training_program_leaves_weights_and_dropout_alone() -> None:
    built = _dropout()
    both = pair(built, is_training=False, micro_batch_size=2)
    before = snapshot(both.ipu, variables(built.main))
    first, second, loss = both.on_ipu(ONES)
    np.testing.assert_array_equal(first, ONES["x"])
    np.testing.assert_array_equal(second, ONES["x"])
    np.testing.assert_allclose(loss, 2 * before[built.parameters[0]][0], rtol=1e-6)
    both.weights_to_host()
    for name, array in before.items():
        np.testing.assert_array_equal(read(both.ipu, name), array)


def test_training_and_inference_of_one_program_share_a_scope() -> None:
    built = mlp(sgd)
    both = pair(built)
    losses = [both.step(rows(4))[0]["loss"] for _ in range(3)]
    both.weights_to_host()
    answers = _inference(both).on_ipu(rows(4))
    expected = _logits(built, both.ipu, rows(4)["x"])
    np.testing.assert_allclose(answers[1], expected, rtol=1e-5, atol=1e-6)
    assert answers[0] < losses[0]


def _inference(both: Pair) -> Pair:
    compiler = paddle.static.IpuCompiledProgram(
        both.built.main, both.ipu, strategy(is_training=False)
    )
    program = compiler.compile(both.built.feeds, both.built.fetches)
    return Pair(both.built, both.cpu, both.ipu, compiler, program)


def _logits(built: Built, scope: Any, x: np.ndarray) -> np.ndarray:
    w0, b0, w1, b1 = (read(scope, name) for name in built.parameters)
    return np.tanh(x @ w0 + b0) @ w1 + b1


def test_a_program_without_optimizer_infers() -> None:
    built = mlp(None)
    scope = initialised(built)
    compiler = paddle.static.IpuCompiledProgram(
        built.main, copied(scope, built.parameters), strategy(is_training=False)
    )
    program = compiler.compile(["x", "y"], [built.values["logits"]])
    both = Pair(built, scope, scope, compiler, program)
    for step in range(2):
        feed = rows(4, step)
        (logits,) = both.on_ipu(feed, [built.values["logits"]])
        np.testing.assert_allclose(logits, _logits(built, scope, feed["x"]), rtol=1e-5, atol=1e-6)
