"""``clone(for_test=True)`` on both kinds of programs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates

X = np.linspace(-2.0, 2.0, 32, dtype=np.float32).reshape(4, 8)


def _types(program: Any) -> list[str]:
    return [op.type for op in program.global_block().ops]


def _run(program: Any, startup: Any, fetch: list[Any], scope: Any, times: int = 1) -> list[Any]:
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(scope):
        if startup is not None:
            exe.run(startup)
        for _ in range(times):
            result = exe.run(program, feed={"x": X}, fetch_list=fetch)
    return list(result)


def test_a_clone_for_tests_has_nothing_of_training(trained: SimpleNamespace) -> None:
    types = _types(trained.main.clone(for_test=True))
    assert not [name for name in types if name.endswith("_grad") or "adamw" in name]
    # Neither clipping nor the seed of the gradients stays.
    assert "squared_l2_norm" not in types
    assert "fill_any_like" not in types
    assert types.count("dropout") == types.count("batch_norm") == 1


def test_a_clone_made_after_minimize_is_the_one_made_before(trained: SimpleNamespace) -> None:
    after = trained.main.clone(for_test=True)
    assert _types(after) == _types(trained.before)


def test_the_program_itself_stays(trained: SimpleNamespace) -> None:
    types = _types(trained.main)
    trained.main.clone(for_test=True)
    assert _types(trained.main) == types
    assert "adamw" in types
    dropout = next(op for op in trained.main.global_block().ops if op.type == "dropout")
    assert not dropout.attr("is_test")


def test_dropout_and_normalisation_are_in_test_mode(trained: SimpleNamespace) -> None:
    clone = trained.main.clone(for_test=True)
    modes = [op.attr("is_test") for op in clone.global_block().ops if op.has_attr("is_test")]
    assert modes == [True, True]


def test_a_clone_runs_without_states_and_computes_what_numpy_does(
    trained: SimpleNamespace,
) -> None:
    scope = paddle.static.Scope()
    names = [trained.hidden.name, trained.dropped.name, trained.loss.name]
    clone = trained.main.clone(for_test=True)
    hidden, dropped, loss = _run(clone, trained.startup, names, scope)
    weight = np.array(scope.find_var(trained.weight.name).get_tensor())
    # Fresh statistics are 0 and 1, the fresh bias is 0, and dropout of this kind passes all.
    np.testing.assert_allclose(hidden, X @ weight / np.sqrt(1 + 1e-5), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(dropped, hidden)
    np.testing.assert_allclose(loss, 2 * np.mean(hidden**2), rtol=1e-5)
    again = _run(clone, None, names, scope)
    np.testing.assert_array_equal(again[2], loss)


def test_a_clone_follows_the_training_of_its_original(trained: SimpleNamespace) -> None:
    scope = paddle.static.Scope()
    clone = trained.main.clone(for_test=True)
    (fresh,) = _run(clone, trained.startup, [trained.loss.name], scope)
    _run(trained.main, None, [trained.loss.name], scope, times=3)
    (later,) = _run(clone, None, [trained.loss.name], scope)
    assert later != fresh


def test_names_asked_for_after_cloning_are_names_in_the_clone(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        y = paddle.static.data("x", [4, 8], "float32") * 3.0
    for clone in (main.clone(), main.clone(for_test=True), main.clone(True)):
        (got,) = _run(clone, None, [y.name], paddle.static.Scope())
        np.testing.assert_allclose(got, X * 3.0, rtol=1e-6)


def test_a_gradient_of_scale_is_of_training_too(static_mode: None) -> None:
    # PIR's backward of `scale` is another `scale`, which no name tells.
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [4, 8], "float32")
        weight = paddle.static.create_parameter([8, 1], "float32")
        loss = paddle.scale(paddle.mean(paddle.matmul(x, weight)), 3.0)
        paddle.optimizer.SGD(0.1).minimize(loss)
    types = _types(main.clone(for_test=True))
    assert types.count("scale") == 1
    assert types[-1] == "scale"


def test_metrics_built_after_minimize_stay(static_mode: None) -> None:
    main = paddle.static.Program()
    startup = paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [4, 8], "float32")
        y = paddle.static.nn.fc(x, 1)
        loss = paddle.mean(y * y)
        paddle.optimizer.Momentum(0.1).minimize(loss)
        metric = paddle.max(y)
    clone = main.clone(for_test=True)
    value, all_of_y = _run(clone, startup, [metric.name, y.name], paddle.static.Scope())
    assert value == all_of_y.max()
    assert "momentum" not in _types(clone)


def test_a_pir_clone_keeps_its_own_argument(static_mode: None) -> None:
    if not paddle.base.framework.in_pir_mode():
        pytest.skip("Paddle 2.6 builds ProgramDesc programs, whose clone takes no mapping")
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        y = paddle.static.data("x", [4, 8], "float32") * 3.0
    mapping = paddle.pir.IrMapping()
    clone = main.clone(mapping)
    assert clone.num_ops() == main.num_ops()
    assert mapping.look_up(y).get_defining_op().get_parent_block().program == clone
