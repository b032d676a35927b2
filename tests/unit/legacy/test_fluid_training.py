"""Optimizers, regularizers, clipping and initializers of ``paddle.fluid`` are today's, old form."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)


def _trained(make: Any) -> list[Any]:
    """Losses of five steps of a small network, always from the same weights."""
    with paddle.utils.unique_name.guard():
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [4, 3], "float32")
            attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.5))
            y = paddle.static.nn.fc(x, 2, weight_attr=attr)
            loss = paddle.mean((y - 1.0) * (y - 1.0))
            make().minimize(loss)
        scope = paddle.static.Scope()
        exe = paddle.static.Executor(paddle.CPUPlace())
        with paddle.static.scope_guard(scope):
            exe.run(startup)
            return [exe.run(main, feed={"x": X}, fetch_list=[loss])[0] for _ in range(5)]


def _clip() -> Any:
    return paddle.nn.ClipGradByGlobalNorm(0.1)


@pytest.mark.parametrize(
    ("old", "today"),
    [
        (lambda f: f.SGD(0.1), lambda o: o.SGD(0.1)),
        (
            lambda f: f.SGDOptimizer(0.1, None, paddle.fluid.regularizer.L2Decay(0.1), _clip()),
            lambda o: o.SGD(0.1, weight_decay=paddle.regularizer.L2Decay(0.1), grad_clip=_clip()),
        ),
        (
            lambda f: f.Momentum(learning_rate=0.1, momentum=0.8, use_nesterov=True),
            lambda o: o.Momentum(0.1, 0.8, use_nesterov=True),
        ),
        (
            lambda f: f.AdamOptimizer(0.1, 0.8, 0.99, 1e-6, regularization=_l1()),
            lambda o: o.Adam(0.1, 0.8, 0.99, 1e-6, weight_decay=paddle.regularizer.L1Decay(0.1)),
        ),
        (lambda f: f.Adamax(0.1, 0.8), lambda o: o.Adamax(0.1, 0.8)),
        (
            lambda f: f.Adagrad(0.1, initial_accumulator_value=0.5),
            lambda o: o.Adagrad(0.1, initial_accumulator_value=0.5),
        ),
        (lambda f: f.Adadelta(0.1, 1e-4, 0.9), lambda o: o.Adadelta(0.1, 1e-4, 0.9)),
        (
            lambda f: f.RMSProp(0.1, 0.9, 1e-4, 0.5, True),
            lambda o: o.RMSProp(0.1, 0.9, 1e-4, 0.5, True),
        ),
        (lambda f: f.Lamb(0.1, 0.02, 0.8), lambda o: o.Lamb(0.1, 0.02, 0.8)),
    ],
)
def test_optimizers_train_as_todays(static_mode: None, old: Any, today: Any) -> None:
    got = _trained(lambda: old(paddle.fluid.optimizer))
    expected = _trained(lambda: today(paddle.optimizer))
    np.testing.assert_array_equal(got, expected)
    assert got[-1] < got[0]


def _l1() -> Any:
    return paddle.fluid.regularizer.L1DecayRegularizer(regularization_coeff=0.1)


def test_minimize_takes_the_old_name_of_the_parameters(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [4, 3], "float32")
        first = paddle.static.create_parameter([3, 2], "float32")
        second = paddle.static.create_parameter([2, 1], "float32")
        loss = paddle.mean(paddle.matmul(paddle.matmul(x, first), second))
        paddle.fluid.optimizer.SGD(0.1).minimize(loss, parameter_list=[second])
        paddle.fluid.optimizer.Lamb(0.1).minimize(loss, parameter_list=[second])
    updates = [op for op in main.global_block().ops if op.type in ("sgd", "lamb")]
    assert [op.input("Param") for op in updates] == [[second.name], [second.name]]


def test_wrong_arguments_are_refused(static_mode: None) -> None:
    optimizer = paddle.fluid.optimizer
    with pytest.raises(TypeError, match="SGDOptimizer takes learning_rate, .*; got rho beside"):
        optimizer.SGD(0.1, rho=0.5)
    with pytest.raises(TypeError, match="got learning_rate twice"):
        optimizer.Adam(0.1, learning_rate=0.2)
    with pytest.raises(TypeError, match="SGDOptimizer takes 6 arguments, got 7"):
        optimizer.SGD(0.1, None, None, None, None, None, None)
    with pytest.raises(ValueError, match=r"LambOptimizer\(regularization=.*lamb_weight_decay"):
        optimizer.Lamb(0.1, regularization=paddle.regularizer.L2Decay(0.1))


def test_initializers_fill_as_they_say(static_mode: None) -> None:
    initializer = paddle.fluid.initializer
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    main, startup = paddle.static.Program(), paddle.static.Program()
    kinds = [
        initializer.Constant(value=0.5),
        initializer.NumpyArrayInitializer(given),
        initializer.TruncatedNormal(loc=3.0, scale=0.5, seed=5),
        initializer.Uniform(low=1.0, high=2.0, seed=5),
    ]
    with paddle.static.program_guard(main, startup):
        parameters = [
            paddle.fluid.layers.create_parameter(
                shape, "float32", attr=paddle.fluid.ParamAttr(initializer=kind)
            )
            for shape, kind in zip([[4], [2, 3], [2000], [2000]], kinds, strict=True)
        ]
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
    constant, array, normal, uniform = (
        np.array(scope.find_var(p.name).get_tensor()) for p in parameters
    )
    assert (constant == 0.5).all()
    np.testing.assert_array_equal(array, given)
    # Truncated at two standard deviations on either side.
    assert np.abs(normal - 3.0).max() <= 1.0
    assert normal.mean() == pytest.approx(3.0, abs=0.05)
    assert 1.0 <= uniform.min() < 1.1
    assert 1.9 < uniform.max() <= 2.0
