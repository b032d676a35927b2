"""Variables that forward writes: running statistics, counts and averages, beside the CPU's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.training.side_by_side import (
    Built,
    Pair,
    build,
    copied,
    distance,
    initialised,
    pair,
    read,
    strategy,
    variables,
    write,
)

# Paddle says so whenever a program with batch normalisation is built in training mode.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")


def _count(name: str, dtype: str = "float32") -> Any:
    return paddle.static.create_parameter(
        [1],
        dtype,
        attr=paddle.ParamAttr(
            name=name, trainable=False, initializer=paddle.nn.initializer.Constant(0.0)
        ),
    )


def _network(optimizer: Any = None, batch: int = -1) -> Built:
    """x [batch, 3, 4] through a normalisation used twice; a count and an average beside it."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [batch, 3, 4], "float32")
        norm = paddle.nn.BatchNorm1D(3, momentum=0.7)
        hidden = norm(paddle.tanh(norm(x)) * 2.0)
        logits = paddle.nn.Linear(4, 2)(hidden)
        loss = paddle.mean(paddle.tanh(logits) + logits * logits * 0.1)
        count, average = _count("count"), _count("average")
        paddle.increment(count)
        paddle.assign(average * 0.5 + paddle.mean(x).detach().reshape([1]), output=average)
        values = {"loss": loss, "logits": logits, "count": count, "double": count * 2.0}
        values["average"] = average
        if optimizer is not None:
            optimizer.minimize(loss)
        return ["x"], values, None

    return build(make)


def _sgd() -> Any:
    return paddle.optimizer.SGD(0.1)


def _momentum() -> Any:
    return paddle.optimizer.Momentum(0.1, 0.9)


def _x(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.random.RandomState(seed).standard_normal((count, 3, 4)).astype(np.float32)}


def _assert_alike(both: Pair, names: list[str] | None = None) -> None:
    both.weights_to_host()
    for name in variables(both.built.main) if names is None else names:
        assert distance(read(both.ipu, name), read(both.cpu, name)) <= 1e-6, name


@pytest.mark.parametrize("optimizer", [_sgd, _momentum])
def test_training_steps_write_what_paddle_writes(optimizer: Any) -> None:
    both = pair(_network(optimizer()))
    for step in range(3):
        cpu, ipu = both.step(_x(4, step))
        for name, array in cpu.items():
            assert ipu[name].shape == array.shape
            np.testing.assert_allclose(ipu[name], array, rtol=2e-5, atol=1e-6, err_msg=name)
    _assert_alike(both)


def test_statistics_leave_plain_sgd_portable() -> None:
    both = pair(_network(_sgd()))
    assert both.program.not_portable_because == ()


def test_each_batch_of_a_step_sees_what_the_one_before_wrote() -> None:
    both = pair(_network(_sgd()), {"batches_per_step": 3})
    for run in range(2):
        feed = _x(12, run)
        got = dict(zip(both.built.values, both.on_ipu(feed), strict=True))
        for turn in range(3):
            expected = both.on_cpu({"x": feed["x"][4 * turn : 4 * turn + 4]})
            for name, array in zip(both.built.values, expected, strict=True):
                np.testing.assert_allclose(got[name][turn], array, rtol=2e-5, atol=1e-6)
    _assert_alike(both)


def test_each_micro_batch_under_accumulation_sees_what_the_one_before_wrote() -> None:
    options = {
        "enable_gradient_accumulation": True, "accumulation_factor": 3, "batches_per_step": 2,
    }  # fmt: skip
    both = pair(_network(_sgd()), options)
    feed = _x(24)
    got = dict(zip(both.built.values, both.on_ipu(feed), strict=True))
    counts = got["count"].reshape(-1)
    np.testing.assert_allclose(counts - counts[0], [0, 1, 2, 3, 4, 5], atol=1e-6)
    np.testing.assert_array_equal(got["double"], got["count"] * 2)
    # Statistics of the first normalisation do not depend on what is trained.
    frozen = pair(_network(), is_training=False)
    for turn in range(6):
        frozen.on_cpu({"x": feed["x"][4 * turn : 4 * turn + 4]})
    both.weights_to_host()
    for name in ("count", "average"):
        assert distance(read(both.ipu, name), read(frozen.cpu, name)) <= 1e-6, name


def test_inference_writes_too() -> None:
    both = pair(_network(), {"batches_per_step": 2}, is_training=False)
    feed = _x(8)
    for _ in range(2):
        ipu = both.on_ipu(feed)
        for turn in range(2):
            cpu = both.on_cpu({"x": feed["x"][4 * turn : 4 * turn + 4]})
            for got, expected in zip(ipu, cpu, strict=True):
                np.testing.assert_allclose(got[turn], expected, rtol=2e-5, atol=1e-6)
    _assert_alike(both)


def test_a_clone_for_test_sees_the_statistics_that_training_wrote() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3, 4], "float32")
        logits = paddle.nn.Linear(4, 2)(paddle.nn.BatchNorm1D(3)(x))
        loss = paddle.mean(logits * logits)
        return ["x"], {"loss": loss, "logits": logits}, None

    built = build(make)
    clone = built.main.clone(for_test=True)
    with paddle.static.program_guard(built.main, built.startup), paddle.utils.unique_name.guard():
        paddle.optimizer.SGD(0.1).minimize(built.values["loss"])
    both = pair(built)
    name = str(getattr(built.values["logits"], "name", ""))
    compiler = paddle.static.IpuCompiledProgram(
        clone, scope=both.ipu, ipu_strategy=strategy(is_training=False)
    )
    evaluation = compiler.compile(["x"], [name])
    executor = paddle.static.Executor(paddle.IPUPlace())
    for step in range(2):
        both.step(_x(4, step))
        (got,) = executor.run(evaluation, feed=_x(4, 7), fetch_list=[name])
        with paddle.static.scope_guard(both.cpu):
            (expected,) = paddle.static.Executor(paddle.CPUPlace()).run(
                clone, feed=_x(4, 7), fetch_list=[name]
            )
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    _assert_alike(both)


def test_paddles_own_save_holds_the_newest_statistics(tmp_path: Path) -> None:
    both = pair(_network(_sgd()))
    both.step(_x(4))
    with paddle.static.scope_guard(both.ipu):
        paddle.static.save(both.built.main, str(tmp_path / "model"))
    with paddle.static.scope_guard(paddle.static.Scope()):
        scope = copied(initialised(both.built), variables(both.built.main))
        with paddle.static.scope_guard(scope):
            paddle.static.load(both.built.main, str(tmp_path / "model"))
    names = [name for name in both.built.parameters if "norm" in name or name == "count"]
    assert len(names) == 5
    for name in names:
        assert distance(read(scope, name), read(both.cpu, name)) <= 1e-6, name


def _counting() -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2], "float32")
        count = _count("count", "int64")
        paddle.increment(count)
        return ["x"], {"count": count, "y": x * 2.0}, None

    return build(make)


def test_a_count_of_whole_numbers_stays_one() -> None:
    both = pair(_counting(), {"batches_per_step": 2}, is_training=False)
    feed = {"x": np.ones(4, np.float32)}
    counts, _ = both.on_ipu(feed)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts.reshape(-1), [1, 2])
    both.weights_to_host()
    held = read(both.ipu, "count")
    assert held.dtype == np.int64
    np.testing.assert_array_equal(held, [2])


def test_a_count_goes_on_beyond_32_bits() -> None:
    both = pair(_counting(), {"batches_per_step": 2}, is_training=False)
    write(both.ipu, "count", np.asarray([2**31 - 2], np.int64))
    both.program.weights_from_host()
    counts, _ = both.on_ipu({"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(counts.reshape(-1), [2**31 - 1, 2**31])
    both.weights_to_host()
    np.testing.assert_array_equal(read(both.ipu, "count"), [2**31])


def test_verify_compares_what_is_written() -> None:
    import paddle_ipu

    built = _network(_momentum())
    scope = initialised(built)
    report = paddle_ipu.verify(
        built.main, _x(4), [built.values["loss"]], scope=scope, steps=2, every_operator=True
    )
    written = [row.name for row in report.updates if "written by" in row.what]
    assert {"count", "average"} < set(written)
    assert sum("norm" in name for name in written) == 2


def test_verify_lets_micro_batches_see_what_was_written() -> None:
    import paddle_ipu

    built = _network(_sgd())
    options = {"enable_gradient_accumulation": True, "accumulation_factor": 3}
    report = paddle_ipu.verify(
        built.main,
        _x(12),
        [built.values["double"], built.values["average"]],
        scope=initialised(built),
        ipu_strategy=strategy(options),
        every_operator=True,
    )
    assert len(report.updates) == 4
