"""Programs compiled with one Scope share their variables, whichever of them writes them there."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import BackendUnavailableError, popart_runtime_error
from tests.journeys.training.side_by_side import (
    Pair,
    build,
    distance,
    initialised,
    mlp,
    pair,
    read,
    rows,
    strategy,
    variables,
    write,
)
from tests.unit.weight_model import weights_lost

pytestmark = pytest.mark.usefixtures("static_mode")


def _another(both: Pair, **config: Any) -> Any:
    """The pair's program compiled once more, with the same Scope."""
    compiler = paddle.static.IpuCompiledProgram(both.built.main, both.ipu, strategy(**config))
    return compiler.compile(both.built.feeds, both.built.fetches)


def _run(program: Any, both: Pair, step: int) -> Any:
    executor = paddle.static.Executor(paddle.IPUPlace())
    return executor.run(program, feed=rows(4, step), fetch_list=both.built.fetches)[0]


@pytest.mark.parametrize("how", ["weights_to_host", "save"])
def test_weights_that_one_program_wrote_reach_the_others(how: str, tmp_path: Path) -> None:
    both = pair(mlp(paddle.optimizer.SGD))
    testing = _another(both, is_training=False)
    for step in range(2):
        both.step(rows(4, step))
        if how == "save":
            with paddle.static.scope_guard(both.ipu):
                paddle.static.save(both.built.main, str(tmp_path / "model"))
        else:
            both.weights_to_host()
        (expected, _) = both.on_cpu(rows(4, step + 1))
        np.testing.assert_allclose(_run(testing, both, step + 1), expected, rtol=1e-5)
        both.on_ipu(rows(4, step + 1))


def test_a_program_that_never_ran_writes_no_older_weights() -> None:
    both = pair(mlp(paddle.optimizer.SGD))
    compiled_last = _another(both)
    both.step(rows(4))
    paddle.base.core.IpuBackend.get_instance().weights_to_host()
    compiled_last.weights_to_host()
    both.assert_equal_weights(1e-5)


@pytest.mark.parametrize("written", [False, True])
def test_optimizer_state_goes_with_the_program_that_trains(
    written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the programs relieves the Scope of it."""
    monkeypatch.setattr("paddle_ipu.runtime.weights.state_upload._WORTH_RELEASING", 0)
    both = pair(mlp(paddle.optimizer.Adam))
    programs = [both.program]
    for step, turn in enumerate((0, 0, 2, 0, 1)):
        if step in (1, 2):
            if written:
                both.weights_to_host()
            programs.append(_another(both))
        both.on_cpu(rows(4, step))
        _run(programs[turn], both, step)
    programs[2].weights_to_host()
    both.assert_equal_weights(1e-4, names=variables(both.built.main))


def test_a_program_that_is_given_another_scope_has_its_newest_weights() -> None:
    both, there = pair(mlp(paddle.optimizer.SGD)), pair(mlp(paddle.optimizer.SGD))
    both.step(rows(4))
    there.on_ipu(rows(4, 1))
    both.program.backend.set_scope(there.ipu)
    (expected, _) = both.on_cpu(rows(4, 2))
    (got, _) = there.on_ipu(rows(4, 2))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_another_scope_has_what_the_last_program_of_the_old_one_trained() -> None:
    both, there = pair(mlp(paddle.optimizer.SGD)), pair(mlp(paddle.optimizer.SGD))
    other = _another(both)
    both.step(rows(4))
    both.on_cpu(rows(4, 1))
    _run(other, both, 1)
    both.program.backend.set_scope(there.ipu)
    both.program.weights_to_host()
    for name in variables(both.built.main):
        assert distance(read(there.ipu, name), read(both.cpu, name)) <= 1e-5, name


@pytest.mark.parametrize("how", ["dropped", "reset", "detach"])
@pytest.mark.parametrize("released", [False, True])
def test_a_program_that_ends_leaves_what_it_trained(
    how: str, released: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``weights_to_host``, and whether or not the Scope still held the optimizer state."""
    if released:
        monkeypatch.setattr("paddle_ipu.runtime.weights.state_upload._WORTH_RELEASING", 0)
    both = pair(mlp(paddle.optimizer.Adam))
    both.step(rows(4))
    if how == "dropped":
        both.program = both.compiler = None
        gc.collect()
    else:
        getattr(both.program.backend, how)()
    for name in variables(both.built.main):
        assert distance(read(both.ipu, name), read(both.cpu, name)) <= 1e-5, name


def test_a_scheduler_that_fails_loses_nothing() -> None:
    both = pair(mlp(paddle.optimizer.Adam, scheduler=lambda: paddle.optimizer.lr.NoamDecay(8, 2)))
    both.step(rows(4))

    def fails() -> float:
        raise ValueError("no rate today")

    before = both.built.main.lr_scheduler
    both.built.main.lr_scheduler = fails
    with pytest.raises(ValueError, match="no rate today"):
        both.on_ipu(rows(4))
    both.built.main.lr_scheduler = before
    both.step(rows(4, 1))
    both.assert_equal_weights(1e-5)


@pytest.mark.parametrize("released", [False, True])
def test_a_program_that_an_abort_stopped_is_as_before_the_run(
    released: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if released:
        monkeypatch.setattr("paddle_ipu.runtime.weights.state_upload._WORTH_RELEASING", 0)

    def asserting(logits: Any, y: Any) -> dict[str, Any]:
        paddle.static.nn.control_flow.Assert(paddle.all(y < 3), [y])
        return {}

    both = pair(mlp(paddle.optimizer.Adam, extra=asserting))
    good = {**rows(4), "y": np.zeros((4, 1), np.int64)}
    both.step(good)
    both.step(good)
    with pytest.raises(popart_runtime_error, match="Abort Program"):
        both.on_ipu({**good, "y": np.full((4, 1), 3)})
    both.step(good)
    both.assert_equal_weights(1e-4, names=variables(both.built.main))


@pytest.mark.parametrize("written", [False, True])
def test_a_run_that_takes_the_weights_with_it_goes_on_with_what_the_scope_has(
    written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddle_ipu.runtime.weights.state_upload._WORTH_RELEASING", 0)
    both = pair(mlp(paddle.optimizer.Adam))
    both.on_ipu(rows(4))
    if written:
        both.weights_to_host()
    with weights_lost():
        both.on_ipu(rows(4, 1))
    if not written:
        with pytest.raises(
            BackendUnavailableError,
            match=r"a run that failed took the optimizer's state with it "
            r"\(linear_\d\.b_0_moment1_0, .*, \.\.\.\)\. Run the startup program, load a "
            r"checkpoint with paddle\.static\.load, and run again",
        ):
            both.on_ipu(rows(4, 1))
    both.on_cpu(rows(4))
    if not written:
        with paddle.static.scope_guard(both.cpu):
            paddle.static.save(both.built.main, str(tmp_path / "model"))
        with paddle.static.scope_guard(both.ipu):
            paddle.static.Executor(paddle.CPUPlace()).run(both.built.startup)
            paddle.static.load(both.built.main, str(tmp_path / "model"))
    both.step(rows(4, 1))
    both.assert_equal_weights(1e-4, names=variables(both.built.main))


def _linear(x: Any, name: str, rows: int, columns: int) -> Any:
    weight = paddle.create_parameter([rows, columns], "float32", attr=paddle.ParamAttr(name=name))
    return paddle.matmul(x, weight)


def _generated() -> Any:
    noise = paddle.static.data("noise", [8, 4], "float32")
    return _linear(paddle.tanh(_linear(noise, "g0", 4, 16)), "g1", 16, 2)


def _discriminating() -> tuple[list[str], dict[str, Any], Any]:
    real = paddle.static.data("real", [8, 2], "float32")
    rows = paddle.concat([real, _generated().detach()])
    hidden = paddle.nn.functional.leaky_relu(_linear(rows, "d0", 2, 16))
    logits = _linear(hidden, "d1", 16, 1)
    wanted = paddle.concat([paddle.ones([8, 1]), paddle.zeros([8, 1])])
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(logits, wanted)
    paddle.optimizer.Adam(0.02, beta1=0.5).minimize(loss)
    return ["noise", "real"], {"loss": loss}, None


def _generating() -> tuple[list[str], dict[str, Any], Any]:
    hidden = paddle.nn.functional.leaky_relu(_linear(_generated(), "d0", 2, 16))
    logits = _linear(hidden, "d1", 16, 1)
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(logits, paddle.ones([8, 1]))
    block = paddle.static.default_main_program().global_block()
    trained = [p for p in block.all_parameters() if p.name.startswith("g")]
    paddle.optimizer.RMSProp(0.01).minimize(loss, parameters=trained)
    return ["noise"], {"loss": loss}, None


def test_a_generator_and_its_discriminator_with_an_optimizer_each() -> None:
    discriminating, generating = build(_discriminating), build(_generating)
    both = pair(discriminating)
    other = Pair(generating, both.cpu, both.ipu, None, None)
    for scope in (both.cpu, both.ipu):
        for name in set(variables(generating.main)) - set(variables(discriminating.main)):
            write(scope, name, read(initialised(generating), name))
    other.compiler = paddle.static.IpuCompiledProgram(
        generating.main, both.ipu, strategy(micro_batch_size=8)
    )
    other.program = other.compiler.compile(generating.feeds, generating.fetches)
    rng = np.random.RandomState(0)
    for _ in range(5):
        noise = rng.standard_normal((8, 4)).astype(np.float32)
        real = 1.0 + 0.1 * rng.standard_normal((8, 2)).astype(np.float32)
        for side, feed in ((both, {"noise": noise, "real": real}), (other, {"noise": noise})):
            expected, got = side.step(feed)
            np.testing.assert_allclose(got["loss"], expected["loss"], rtol=1e-5)
    for side in (both, other):
        side.assert_equal_weights(1e-5)
