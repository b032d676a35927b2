"""A killed run goes on as if nothing had happened, on the device it was on or on another."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.training import resumed_run
from tests.journeys.training.side_by_side import (
    Built,
    copied,
    initialised,
    mlp,
    rows,
    strategy,
    variables,
)

pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")

LINES = """
import os
from tests.journeys.training.resumed_run import run
run({mode!r}, {path!r}, lambda line: os.write(1, line.encode()))
"""


def test_a_killed_run_resumes_with_the_same_losses(
    run_python: Callable[..., Any], tmp_path: Path
) -> None:
    path = str(tmp_path / "checkpoint")
    whole: list[str] = []
    with paddle.static.scope_guard(paddle.static.Scope()):
        resumed_run.run("whole", path, whole.append)
    until = run_python(LINES.format(mode="until", path=path), exit_code=-signal.SIGKILL).stdout
    after = run_python(LINES.format(mode="from", path=path)).stdout
    assert len(whole) == len(resumed_run.STEPS)
    assert until == "".join(whole[: resumed_run.KEPT_AFTER])
    assert after == "".join(whole[resumed_run.KEPT_AFTER :])


def _normalised() -> Built:
    # A bias in front of the normalisation has no gradient but noise, which Adam makes much of.
    return mlp(
        paddle.optimizer.Adam,
        scheduler=lambda: paddle.optimizer.lr.StepDecay(0.05, 2, 0.5),
        first={"bias_attr": False},
        normalise=True,
    )


class Run:
    """A run on one device, ``cpu`` or ``ipu``, which the other can take over.

    The scheduler goes with it; each step's number decides its feed.
    """

    def __init__(self, built: Built, scope: Any) -> None:
        self.built, self.scope = built, scope
        self.program: Any = None
        self.losses: list[float] = []

    def compile(self) -> None:
        compiler = paddle.static.IpuCompiledProgram(
            self.built.main, scope=self.scope, ipu_strategy=strategy()
        )
        self.program = compiler.compile(self.built.feeds, self.built.fetches)

    def steps(self, device: str, count: int) -> None:
        if device == "ipu" and self.program is None:
            self.compile()
        place = paddle.IPUPlace() if device == "ipu" else paddle.CPUPlace()
        executor = paddle.static.Executor(place)
        for _ in range(count):
            program = self.program if device == "ipu" else self.built.main
            with paddle.static.scope_guard(self.scope):
                results = executor.run(
                    program, feed=rows(4, len(self.losses)), fetch_list=self.built.fetches
                )
            self.losses.append(float(results[0]))
            self.built.scheduler.step()


@pytest.fixture(scope="module")
def built() -> Built:
    return _normalised()


@pytest.fixture
def on_cpu(built: Built) -> Run:
    """Six steps by Paddle's executor."""
    return _started(built, "cpu", 6)


def _started(built: Built, device: str, count: int) -> Run:
    built.scheduler.set_state_dict({"last_epoch": 0, "last_lr": 0.05})
    run = Run(built, initialised(built))
    run.steps(device, count)
    return run


def _by_static_save(run: Run, other: Run, path: str) -> None:
    with paddle.static.scope_guard(run.scope):
        paddle.static.save(run.built.main, path)
    with paddle.static.scope_guard(other.scope):
        paddle.static.load(other.built.main, path)


def _by_program_state(run: Run, other: Run, path: str) -> None:
    with paddle.static.scope_guard(run.scope):
        paddle.static.save(run.built.main, path)
    with paddle.static.scope_guard(other.scope):
        state = paddle.static.load_program_state(path)
        paddle.static.set_program_state(other.built.main, state)


def _by_state_dict(run: Run, other: Run, path: str) -> None:
    with paddle.static.scope_guard(run.scope):
        paddle.save(run.built.main.state_dict(), path)
    with paddle.static.scope_guard(other.scope):
        other.built.main.set_state_dict(paddle.load(path))


@pytest.mark.parametrize(
    ("move", "devices", "compiled_before"),
    [
        (_by_static_save, ("cpu", "ipu"), True),
        (_by_static_save, ("ipu", "cpu"), False),
        (_by_program_state, ("ipu", "ipu"), True),
        (_by_state_dict, ("ipu", "cpu"), False),
        (_by_state_dict, ("cpu", "ipu"), True),
    ],
)
def test_a_checkpoint_goes_from_device_to_device(
    built: Built,
    on_cpu: Run,
    move: Callable[[Run, Run, str], None],
    devices: tuple[str, str],
    compiled_before: bool,
    tmp_path: Path,
) -> None:
    run = _started(built, devices[0], 3)
    # Other weights, all of which the checkpoint has to replace.
    other = Run(built, initialised(built, seed=9))
    if compiled_before:
        other.compile()
    move(run, other, str(tmp_path / "checkpoint"))
    other.losses = run.losses
    other.steps(devices[1], 3)
    np.testing.assert_allclose(other.losses, on_cpu.losses, rtol=1e-5)


def test_devices_take_turns_at_one_scope(built: Built, on_cpu: Run) -> None:
    run = _started(built, "cpu", 1)
    for device, count in (("ipu", 2), ("cpu", 1), ("ipu", 1), ("cpu", 1)):
        run.steps(device, count)
    np.testing.assert_allclose(run.losses, on_cpu.losses, rtol=1e-5)


def test_an_evaluation_on_the_cpu_sees_what_the_device_trained(built: Built, on_cpu: Run) -> None:
    run = _started(built, "ipu", 6)
    copy = built.main.clone(for_test=True)
    fetched = []
    for scope in (run.scope, on_cpu.scope):
        with paddle.static.scope_guard(scope):
            executor = paddle.static.Executor(paddle.CPUPlace())
            fetched += executor.run(copy, feed=rows(4, 9), fetch_list=[built.fetches[0].name])
    np.testing.assert_allclose(fetched[0], fetched[1], rtol=1e-5)


def test_the_startup_program_starts_the_device_again(built: Built) -> None:
    built.scheduler.set_state_dict({"last_epoch": 0, "last_lr": 0.05})
    run = Run(built, paddle.static.Scope())
    losses = []
    for _ in range(2):
        paddle.seed(3)
        with paddle.static.scope_guard(run.scope):
            paddle.static.Executor(paddle.CPUPlace()).run(built.startup)
        run.losses = []
        run.steps("ipu", 2)
        built.scheduler.set_state_dict({"last_epoch": 0, "last_lr": 0.05})
        losses.append(run.losses)
    assert losses[0] == losses[1]


def test_a_state_dict_of_another_program_is_skipped_with_a_warning(built: Built) -> None:
    scope = initialised(built)
    name = built.parameters[0]
    before = np.array(scope.find_var(name).get_tensor())
    with (
        pytest.warns(UserWarning, match="Skip loading for 'unknown'. Because 'unknown' not in the"),
        pytest.warns(UserWarning, match=f"Skip loading for '{name}'.*hape"),
    ):
        built.main.set_state_dict(
            {"unknown": np.zeros(2, np.float32), name: np.zeros(1, np.float32)}, scope
        )
    np.testing.assert_array_equal(np.array(scope.find_var(name).get_tensor()), before)
    with pytest.raises(TypeError, match="Type of `state_dict` should be dict"):
        built.main.set_state_dict([], scope)


def test_automatic_loss_scaling_goes_on_from_the_scale_it_came_to() -> None:
    built = mlp(paddle.optimizer.SGD)

    def trained(scope: Any, first: int, scale: float) -> tuple[list[float], list[float]]:
        options = {
            "enable_fp16": True, "loss_scaling": scale,
            "automatic_loss_scaling_settings.enabled": True,
        }  # fmt: skip
        compiler = paddle.static.IpuCompiledProgram(
            built.main, scope=scope, ipu_strategy=strategy(options)
        )
        program = compiler.compile(built.feeds, built.fetches)
        executor = paddle.static.Executor(paddle.IPUPlace())
        losses, scales = [], []
        for step in range(first, first + 3):
            results = executor.run(program, feed=rows(4, step), fetch_list=built.fetches)
            losses.append(float(results[0]))
            scales.append(program.loss_scale)
        compiler._backend.weights_to_host()
        return losses, scales

    whole = initialised(built)
    trained(whole, 0, 16.0)
    # The second half in a scope of another process, which has the weights and no more.
    resumed = copied(whole, variables(built.main))
    same = copied(whole, [*variables(built.main), f"{min(built.parameters)}.loss_scale"])
    expected = trained(whole, 3, 16.0)
    # As `loss_scaling` it is not counted twice in a scope that has it already.
    assert trained(same, 3, 16.0 * 2**3) == expected
    assert expected[1][0] == 16.0 * 2**4
    assert trained(resumed, 3, 16.0 * 2**3) == expected


def test_without_the_option_there_is_no_loss_scale_to_keep(built: Built) -> None:
    run = Run(built, initialised(built))
    run.compile()
    assert run.program.loss_scale is None
