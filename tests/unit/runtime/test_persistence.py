"""What Paddle's own functions see of weights that are on the device, on programs of either kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.runtime.weights.persistence import loading
from tests.journeys.training.side_by_side import Pair, mlp, pair, read, rows, strategy, write

pytestmark = pytest.mark.usefixtures("static_mode")


@pytest.fixture
def trained() -> Pair:
    """A program trained for two steps by both, whose Scope still holds the first weights."""
    both = pair(mlp(lambda rate: paddle.optimizer.Adam(rate)))
    for step in range(2):
        both.step(rows(4, step))
    return both


def _tensor(array: np.ndarray) -> Any:
    made = paddle.static.Scope().var("any").get_tensor()
    made.set(array, paddle.CPUPlace())
    return made


def _executor() -> Any:
    return paddle.static.Executor(paddle.CPUPlace())


def test_an_inference_model_holds_the_trained_weights(trained: Pair, tmp_path: Path) -> None:
    main, logits = trained.built.main, trained.built.values["logits"]
    x = main.global_block().var("x")
    path = str(tmp_path / "model")
    with paddle.static.scope_guard(trained.ipu):
        paddle.static.save_inference_model(
            path, [x], [logits], _executor(), program=trained.program.org_program
        )
    feed = {"x": rows(4, 5)["x"]}
    (expected,) = trained.on_cpu({**rows(4, 5)}, [logits])
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, fetches = paddle.static.load_inference_model(path, _executor())
        assert feeds == ["x"]
        (cpu,) = _executor().run(program, feed=feed, fetch_list=fetches)
        compiler = paddle.static.IpuCompiledProgram(
            program, ipu_strategy=strategy(is_training=False)
        )
        compiled = compiler.compile(feeds, fetches)
        (ipu,) = paddle.static.Executor(paddle.IPUPlace()).run(
            compiled, feed=feed, fetch_list=fetches
        )
    # The CPU's own run of `expected` was one training step: its logits are of before the update.
    np.testing.assert_allclose(cpu, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ipu, cpu, rtol=1e-5, atol=1e-6)


def test_a_state_dict_holds_the_trained_weights_and_takes_others(trained: Pair) -> None:
    main = trained.built.main
    name = sorted(trained.built.parameters)[0]
    with paddle.static.scope_guard(trained.ipu):
        held = {key: np.array(value) for key, value in main.state_dict().items()}
    for parameter in trained.built.parameters:
        np.testing.assert_allclose(
            held[parameter], read(trained.cpu, parameter), rtol=1e-4, atol=1e-6
        )
    held[name] = held[name] + 1.0
    for scope in (trained.ipu, trained.cpu):
        # PIR's takes tensors only, and the scope shares their memory.
        main.set_state_dict({key: _tensor(array) for key, array in held.items()}, scope)
    cpu, ipu = trained.step(rows(4, 7))
    np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-5)
    trained.assert_equal_weights(1e-4)


@pytest.mark.parametrize("how", ["clone", "normalize"])
def test_an_inference_program_of_a_trained_one_compiles(trained: Pair, how: str) -> None:
    main, logits = trained.built.main, trained.built.values["logits"]
    if how == "clone":
        program = main.clone(for_test=True)
    else:
        program = paddle.static.normalize_program(main, [main.global_block().var("x")], [logits])
    trained.weights_to_host()
    compiler = paddle.static.IpuCompiledProgram(program, trained.ipu, strategy(is_training=False))
    compiled = compiler.compile(["x", "y"] if how == "clone" else ["x"], [logits.name])
    feed = rows(4, 5) if how == "clone" else {"x": rows(4, 5)["x"]}
    (got,) = paddle.static.Executor(paddle.IPUPlace()).run(
        compiled, feed=feed, fetch_list=[logits.name]
    )
    (expected,) = trained.on_cpu(rows(4, 5), [logits])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_clone_is_saved_with_the_variables_of_the_program(tmp_path: Path) -> None:
    built = mlp(lambda rate: paddle.optimizer.SGD(rate))
    copy = built.main.clone(for_test=True)
    both = pair(built)
    logits = built.values["logits"]
    x = built.main.global_block().var("x")
    path = str(tmp_path / "model")
    with paddle.static.scope_guard(both.cpu):
        paddle.static.save_inference_model(path, [x], [logits], _executor(), program=copy)
        feed = rows(4)
        (expected,) = _executor().run(copy, feed=feed, fetch_list=[logits.name])
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, fetches = paddle.static.load_inference_model(path, _executor())
        assert feeds == ["x"]
        (got,) = _executor().run(program, feed={"x": feed["x"]}, fetch_list=fetches)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2 looks the name up in the program"
)
def test_a_variable_of_an_unrelated_program_is_not_saved(tmp_path: Path) -> None:
    built, other = mlp(None), mlp(None)
    x = built.main.global_block().var("x")
    with pytest.raises(
        InvalidProgramError,
        match=r"fetch_vars holds 'add_\d+\.tmp_0' of another program, and the program to save has "
        r"no variable of that name\. Give variables of the program itself",
    ):
        paddle.static.save_inference_model(
            str(tmp_path / "model"),
            [x],
            [other.values["logits"]],
            _executor(),
            program=built.main,
        )


def test_a_load_concerns_the_devices_of_its_scope_alone(tmp_path: Path) -> None:
    both = pair(mlp(None), is_training=False)
    both.step(rows(4, 0))
    owner, main = both.program.backend.owner, both.built.main
    saved = str(tmp_path / "model")
    with paddle.static.scope_guard(both.ipu):
        paddle.static.save(main, saved)
    with paddle.static.scope_guard(both.cpu):
        paddle.static.load(main, saved)
    assert owner.is_current
    with paddle.static.scope_guard(both.ipu):
        paddle.static.load(main, saved)
    assert not owner.is_current


def test_a_load_that_fails_half_way_counts_as_far_as_it_came(trained: Pair) -> None:
    trained.program.weights_to_host()

    def load() -> None:
        for scope in (trained.cpu, trained.ipu):
            write(scope, "linear_0.w_0", np.zeros_like(read(scope, "linear_0.w_0")))
        raise OSError("the disk is gone")

    with paddle.static.scope_guard(trained.ipu), pytest.raises(OSError, match="the disk is gone"):
        loading(load)()
    expected, got = trained.step(rows(4, 3))
    np.testing.assert_allclose(got["loss"], expected["loss"], rtol=1e-5)


@pytest.mark.parametrize(("has", "given"), [("float32", "float16"), ("float16", "float32")])
def test_a_state_in_the_other_width_is_taken(has: str, given: str) -> None:
    scope, main = paddle.static.Scope(), paddle.static.Program()
    startup = paddle.static.Program()
    value = np.array([[0.1, -2.5], [3.0, 1e-3]], given)
    with (
        paddle.static.scope_guard(scope),
        paddle.static.program_guard(main, startup),
        paddle.utils.unique_name.guard(),
    ):
        paddle.static.create_parameter([2, 2], "float32", name="w")
        _executor().run(startup)
        scope.find_var("w").get_tensor().set(np.zeros((2, 2), has), paddle.CPUPlace())
        paddle.static.set_program_state(main, {"w": value})
        np.testing.assert_array_equal(read(scope, "w"), value.astype(has))
        assert read(scope, "w").dtype == has


def test_a_number_that_does_not_fit_half_is_refused() -> None:
    scope, main, startup = paddle.static.Scope(), paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.scope_guard(scope),
        paddle.static.program_guard(main, startup),
        paddle.utils.unique_name.guard(),
    ):
        paddle.static.create_parameter([1], "float32", name="w")
        _executor().run(startup)
        scope.find_var("w").get_tensor().set(np.zeros(1, np.float16), paddle.CPUPlace())
        with pytest.raises(AssertionError, match=r"data type does not match.*float16"):
            paddle.static.set_program_state(main, {"w": np.array([1e6], np.float32)})
