"""Dropout, batch norm and random operators in training and in inference, as Paddle defines both."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from paddle.nn import functional as F  # noqa: N812

from tests.journeys.training.side_by_side import (
    Built,
    build,
    distance,
    initialised,
    pair,
    read,
    rows,
    strategy,
    variables,
)

pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")

WIDTH = 4000
ONES = {"x": np.ones((2, WIDTH), np.float32)}
RATIO = 0.25


def _dropouts() -> Built:
    """Dropouts of x * weight in each mode, with the gradient of the weight, and drawn numbers."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2, WIDTH], "float32")
        values = {
            name: F.dropout(x * _ones(name), RATIO, **options)
            for name, options in {
                "upscale": {"mode": "upscale_in_train"},
                "downscale": {"mode": "downscale_in_infer"},
                "rows": {"axis": 1},
                "off": {"training": False, "mode": "downscale_in_infer"},
            }.items()
        }
        values["alpha"] = F.alpha_dropout(x, RATIO)
        values["drawn"] = paddle.rand([3])
        loss = sum(value.sum() for value in values.values())
        paddle.optimizer.SGD(0.0).minimize(loss)
        return ["x"], values, None

    return build(make)


def _ones(name: str) -> Any:
    attribute = paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Constant(1.0))
    return paddle.create_parameter([WIDTH], "float32", attr=attribute)


@pytest.fixture(scope="module")
def dropouts() -> Built:
    return _dropouts()


def test_training_drops_and_scales_by_the_mode(dropouts: Built) -> None:
    gradients = [f"Gradient___{name}" for name in ("upscale", "downscale")]
    both = pair(dropouts, spread=0.0, fetches=[*dropouts.fetches, *gradients], micro_batch_size=2)
    found = both.on_ipu(ONES, [*dropouts.fetches, *gradients])
    got = dict(zip([*dropouts.values, *gradients], found, strict=True))
    kept = {"upscale": 1 / (1 - RATIO), "downscale": 1.0, "rows": 1 / (1 - RATIO)}
    for name, value in kept.items():
        assert set(np.unique(got[name].round(5))) == {0.0, np.float32(value).round(5)}, name
        # Four standard deviations of the mean of as many draws as there are.
        draws = WIDTH if name == "rows" else 2 * WIDTH
        spread = 4 * np.sqrt(RATIO * (1 - RATIO) / draws)
        np.testing.assert_allclose((got[name] == 0).mean(), RATIO, atol=spread)
    np.testing.assert_array_equal(got["rows"][0], got["rows"][1])
    np.testing.assert_allclose(got["off"], 1 - RATIO, rtol=1e-6)
    for name in ("upscale", "downscale"):
        # The backward pass drops what the forward pass has dropped.
        np.testing.assert_allclose(got[f"Gradient___{name}"], got[name].sum(0), rtol=1e-6)
    # Alpha dropout keeps mean and variance of standard normal numbers; of ones it makes two values.
    assert len(np.unique(got["alpha"].round(5))) == 2


@pytest.mark.parametrize("how", ["clone", "option"])
def test_inference_drops_nothing(dropouts: Built, how: str) -> None:
    scope = initialised(dropouts, spread=0.0)
    test = dropouts.main.clone(for_test=True)
    names = [value.name for value in dropouts.fetches]
    program = test if how == "clone" else dropouts.main
    compiler = paddle.static.IpuCompiledProgram(
        program, scope=scope, ipu_strategy=strategy(is_training=False, micro_batch_size=2)
    )
    compiled = compiler.compile(["x"], names)
    executor = paddle.static.Executor(paddle.IPUPlace())
    first, second = (
        dict(zip(dropouts.values, found, strict=True))
        for found in (executor.run(compiled, feed=ONES, fetch_list=names) for _ in range(2))
    )
    with paddle.static.scope_guard(scope):
        found = paddle.static.Executor(paddle.CPUPlace()).run(test, feed=ONES, fetch_list=names)
    expected = dict(zip(dropouts.values, found, strict=True))
    # The others are written with drawn numbers, which neither leaves out.
    for name in ("upscale", "downscale", "off"):
        np.testing.assert_allclose(first[name], expected[name], rtol=1e-6, err_msg=name)
    assert (first["drawn"] != second["drawn"]).all()


def _normalised(use_global_stats: bool | None, rate: float) -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        norm = paddle.nn.BatchNorm1D(8, momentum=0.6, use_global_stats=use_global_stats)
        logits = paddle.nn.Linear(8, 4)(norm(x))
        loss = F.cross_entropy(logits, y)
        paddle.optimizer.SGD(rate).minimize(loss)
        return ["x", "y"], {"loss": loss, "logits": logits}, None

    return build(make)


@pytest.mark.parametrize("use_global_stats", [None, False, True])
def test_batch_norm_takes_the_statistics_that_it_is_told_to(use_global_stats: bool | None) -> None:
    built = _normalised(use_global_stats, 0.1)
    both = pair(built, {"batches_per_step": 2})
    before = read(both.cpu, "batch_norm1d_0.w_1")
    for step in range(2):
        feed = rows(8, step)
        got = both.on_ipu(feed)
        for turn in range(2):
            half = {name: array[4 * turn : 4 * turn + 4] for name, array in feed.items()}
            for found, expected in zip(got, both.on_cpu(half), strict=True):
                np.testing.assert_allclose(found[turn], expected, rtol=2e-5, atol=1e-6)
    both.assert_equal_weights(1e-6, names=variables(built.main))
    stays = np.array_equal(read(both.ipu, "batch_norm1d_0.w_1"), before)
    assert stays == bool(use_global_stats)
    if use_global_stats is False and paddle.__version__.startswith("2."):
        # It takes the batch's statistics in a clone for tests, too, which Paddle 2.6 cannot run.
        return
    test = built.main.clone(for_test=True)
    compiler = paddle.static.IpuCompiledProgram(
        test, scope=both.ipu, ipu_strategy=strategy(is_training=False)
    )
    compiled = compiler.compile(["x", "y"], [built.fetches[1].name])
    executors = (paddle.static.Executor(place) for place in (paddle.IPUPlace(), paddle.CPUPlace()))
    with paddle.static.scope_guard(both.ipu):
        ipu, cpu = (
            executor.run(program, feed=rows(4, 9), fetch_list=[built.fetches[1].name])[0]
            for executor, program in zip(executors, (compiled, test), strict=True)
        )
    np.testing.assert_allclose(ipu, cpu, rtol=1e-5, atol=1e-6)


def test_statistics_go_through_every_micro_batch_of_a_run() -> None:
    # With a rate of 0 the CPU's weights stand still from micro-batch to micro-batch, too.
    built = _normalised(None, 0.0)
    options = {
        "enable_gradient_accumulation": True, "accumulation_factor": 3, "batches_per_step": 2,
    }  # fmt: skip
    both = pair(built, options)
    for run in range(2):
        feed = rows(24, run)
        logits = both.on_ipu(feed)[1].reshape(6, 4, 4)
        for turn in range(6):
            part = {name: array[4 * turn : 4 * turn + 4] for name, array in feed.items()}
            expected = both.on_cpu(part)[1]
            np.testing.assert_allclose(logits[turn], expected, rtol=2e-5, atol=1e-6)
    both.weights_to_host()
    for name in ("batch_norm1d_0.w_1", "batch_norm1d_0.w_2"):
        assert distance(read(both.ipu, name), read(both.cpu, name)) <= 1e-6


def _attention() -> Built:
    """softmax(scores) -> dropout -> matmul, and a dropout that is not one of attention."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 64, 64], "float32")
        scores = paddle.create_parameter([64, 64], "float32")
        elsewhere = paddle.create_parameter([64], "float32")
        weights = F.softmax(scores)
        dropped = F.dropout(weights, RATIO)
        attended = paddle.matmul(dropped, x)
        other = F.dropout(x * elsewhere, RATIO)
        loss = (attended * x).sum() + other.sum()
        paddle.optimizer.SGD(0.0).minimize(loss)
        values = {"weights": weights, "dropped": dropped, "other": other, "elsewhere": elsewhere}
        return ["x"], values, None

    return build(make)


@pytest.mark.parametrize("enabled", [False, True])
def test_a_pattern_leaves_the_dropout_of_attention_out_of_the_backward(enabled: bool) -> None:
    built = _attention()
    made = strategy({"random_seed": 3})
    if enabled:
        made.enable_pattern("DisableAttnDropoutBwdPattern")
    names = ["weights", "dropped", "other", "elsewhere"]
    of_weights = f"Gradient___{built.values['weights'].name}"
    of_elsewhere = f"Gradient___{built.values['elsewhere'].name}"
    fetches = [*(built.values[name] for name in names), of_weights, of_elsewhere]
    compiler = paddle.static.IpuCompiledProgram(
        built.main, scope=initialised(built), ipu_strategy=made
    )
    program = compiler.compile(["x"], fetches)
    x = np.random.RandomState(0).standard_normal((4, 64, 64)).astype(np.float32)
    executor = paddle.static.Executor(paddle.IPUPlace())
    found = executor.run(program, feed={"x": x}, fetch_list=fetches)
    weights, dropped, other, elsewhere, gradient, gradient_elsewhere = found
    # The forward pass drops in both cases, and no other dropout is touched.
    scale = np.where(dropped == 0, 0, 1 / (1 - RATIO)).astype(np.float32)
    np.testing.assert_allclose(dropped, weights * scale, rtol=1e-6)
    assert 0.2 < (dropped == 0).mean() < 0.3
    mask = np.where(other == 0, 0, 1 / (1 - RATIO))
    np.testing.assert_allclose(gradient_elsewhere, (x * mask).sum((0, 1)), rtol=1e-4, atol=1e-3)
    assert elsewhere.shape == (64,)
    of_dropped = np.einsum("bij,bkj->ik", x.astype(np.float64), x)
    expected = of_dropped if enabled else of_dropped * scale
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-3)
