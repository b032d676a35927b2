"""Every rule, decay and clip of Paddle's optimizers: 100 steps equal Paddle's CPU executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle
import pytest
from paddle.incubate.optimizer import LarsMomentumOptimizer as Lars
from paddle.regularizer import L1Decay, L2Decay

from paddle_ipu.errors import NotSupported
from tests.journeys.training.fed_gradients import assert_equal_to_paddle, fed_gradients, train
from tests.journeys.training.side_by_side import build, distance, initialised, pair, read

optimizer, lr, nn = paddle.optimizer, paddle.optimizer.lr, paddle.nn
WITH_PIR = not paddle.__version__.startswith("2.6")

RULES: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optimizer.SGD(0.01),
    "momentum": lambda: optimizer.Momentum(0.01, 0.8),
    "momentum with Nesterov and decay": lambda: optimizer.Momentum(
        0.01, 0.9, use_nesterov=True, weight_decay=0.05
    ),
    "momentum of several": lambda: optimizer.Momentum(
        0.01, weight_decay=0.05, use_multi_tensor=True
    ),
    "lars": lambda: Lars(
        0.01, 0.9, 0.5, 0.1, exclude_from_weight_decay=["bias"], epsilon=1e-3, rescale_grad=0.5
    ),
    "adam": lambda: optimizer.Adam(0.01, 0.8, 0.99, 1e-6),
    "adam of touched rows, where all are": lambda: optimizer.Adam(0.01, lazy_mode=True),
    "adam of several": lambda: optimizer.Adam(0.01, use_multi_tensor=True),
    "adamw on some": lambda: optimizer.AdamW(
        0.01, weight_decay=0.1, apply_decay_param_fun=lambda name: name == "weight"
    ),
    "lamb without decay on some": lambda: optimizer.Lamb(
        0.01, 0.1, exclude_from_weight_decay_fn=lambda p: p.name == "bias"
    ),
    "lamb that always adapts": lambda: optimizer.Lamb(0.01, 0.0, always_adapt=True),
    "adamax": lambda: optimizer.Adamax(0.01, epsilon=1e-3),
    "adagrad": lambda: optimizer.Adagrad(0.01, initial_accumulator_value=0.1),
    "adadelta": lambda: optimizer.Adadelta(0.5, 1e-5, 0.9),
    "rmsprop": lambda: optimizer.RMSProp(0.01, 0.9, 1e-5),
    "rmsprop, centred, with momentum": lambda: optimizer.RMSProp(0.01, momentum=0.3, centered=True),
}
if WITH_PIR:
    RULES |= {
        "nadam": lambda: optimizer.NAdam(0.01, momentum_decay=0.01),
        "radam": lambda: optimizer.RAdam(0.01),
        "rprop": lambda: optimizer.Rprop(0.01, (1e-4, 0.05)),
        "adam with amsgrad": lambda: optimizer.Adam(0.01, beta2=0.9, amsgrad=True),
        "adamw with amsgrad": lambda: optimizer.AdamW(0.01, beta2=0.9, amsgrad=True),
    }


@pytest.mark.parametrize("name", RULES)
def test_a_rule_equals_paddles(name: str) -> None:
    assert_equal_to_paddle(fed_gradients(RULES[name]))


def test_momentum_rescales_gradients() -> None:
    """Paddle's CPU kernel ignores ``rescale_grad``, so its oracle is fed what is left of them."""
    both = train(fed_gradients(lambda: optimizer.Momentum(0.01, rescale_grad=0.5)))
    oracle = train(fed_gradients(lambda: optimizer.Momentum(0.01)), scale=0.5)
    for name in both.built.parameters:
        start = distance(read(both.cpu, name), read(oracle.cpu, name))
        assert distance(read(both.ipu, name), read(oracle.cpu, name)) <= 1e-6 < start


@pytest.mark.skipif(WITH_PIR, reason="Paddle 3 has no optimizer with this operator")
def test_decayed_adagrad_of_an_old_program() -> None:
    class DecayedAdagrad(optimizer.Adagrad):  # type: ignore[name-defined, misc]
        """As Paddle 1's, whose operator Paddle 2.6 still has."""

        def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
            parameter, gradient = param_and_grad
            moment = self._get_accumulator(self._moment_acc_str, parameter)
            rate = self._create_param_lr(param_and_grad)
            given = {"Param": parameter, "Grad": gradient, "Moment": moment, "LearningRate": rate}
            return block.append_op(
                type="decayed_adagrad",
                inputs=given,
                outputs={"ParamOut": parameter, "MomentOut": moment},
                attrs={"decay": 0.9, "epsilon": 1e-6},
            )

    assert_equal_to_paddle(fed_gradients(lambda: DecayedAdagrad(0.01)))


# -- decay and clips ------------------------------------------------------------------------------

Attributes = Mapping[str, Mapping[str, Any]]
CHANGES: dict[str, tuple[Callable[[], Any], Attributes]] = {
    "L1, and no clip of one": (
        lambda: optimizer.Adagrad(
            0.01, weight_decay=L1Decay(0.1), grad_clip=nn.ClipGradByGlobalNorm(0.3)
        ),
        {"bias": {"need_clip": False}},
    ),
    "L2 as a number": (lambda: optimizer.Adadelta(0.3, weight_decay=0.1), {}),
    "L1 beside momentum's own L2": (
        lambda: optimizer.Momentum(0.01, weight_decay=L2Decay(0.1)),
        {"weight": {"regularizer": L1Decay(0.2), "learning_rate": 3.0}},
    ),
    "L2 of one, L1 of the others": (
        lambda: optimizer.RMSProp(0.01, weight_decay=L1Decay(0.1)),
        {"weight": {"regularizer": L2Decay(0.2), "learning_rate": 0.3}},
    ),
    "clip by value": (lambda: optimizer.SGD(0.01, grad_clip=nn.ClipGradByValue(0.3, -0.1)), {}),
    "clip by value, not of one, then L2": (
        lambda: optimizer.Adam(0.01, weight_decay=L2Decay(0.1), grad_clip=nn.ClipGradByValue(0.3)),
        {"weight": {"need_clip": False}},
    ),
    "clip by norm, then L2": (
        lambda: optimizer.Adamax(0.01, weight_decay=0.1, grad_clip=nn.ClipGradByNorm(0.5)),
        {},
    ),
    "clip by norm, not of one": (
        lambda: optimizer.Adam(0.01, grad_clip=nn.ClipGradByNorm(0.5)),
        {"bias": {"need_clip": False}},
    ),
    "clip by global norm, then L2": (
        lambda: optimizer.Momentum(
            0.01, weight_decay=L2Decay(0.1), grad_clip=nn.ClipGradByGlobalNorm(0.5)
        ),
        {},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_regularisation_and_clips_equal_paddles(name: str) -> None:
    make, attributes = CHANGES[name]
    assert_equal_to_paddle(fed_gradients(make, attributes))


def test_a_clip_by_value_of_this_plugin_is_what_paddle_runs_too() -> None:
    """Stock Paddle refuses it for PIR programs, so the oracle is its definition."""
    both = pair(fed_gradients(lambda: optimizer.SGD(1.0, grad_clip=nn.ClipGradByValue(0.3, -0.1))))
    before = {name: read(both.cpu, name) for name in both.built.parameters}
    feed = {f"d_{name}": np.full(array.shape, -5.0, "float32") for name, array in before.items()}
    both.step(feed)
    for name, array in before.items():
        np.testing.assert_allclose(read(both.cpu, name) - array, 0.1, rtol=1e-5)


# -- what is refused ------------------------------------------------------------------------------


def _sparse_embedding() -> tuple[list[str], dict[str, Any], Any]:
    ids = paddle.static.data("ids", [3], "int64")
    table = paddle.nn.Embedding(10, 4, sparse=True)
    loss = paddle.mean(table(ids) ** 2)
    optimizer.Adam(0.01, lazy_mode=True).minimize(loss)
    return ["ids"], {"loss": loss}, None


def test_updates_of_touched_rows_alone_are_refused() -> None:
    with pytest.raises(
        NotSupported,
        match=r"adam_ at .*test_update_rules.py:\d+: lazy_mode=True leaves the rows of embedding.* "
        r"alone that no id of a step names, .* sparse=False, with which lazy_mode changes nothing",
    ):
        pair(build(_sparse_embedding))


@pytest.mark.skipif(not WITH_PIR, reason="Paddle 2.6 has no ASGD")
def test_averaged_sgd_is_refused_with_what_gives_its_weights() -> None:
    with pytest.raises(
        NotSupported, match=r"optimizer asgd_ \(at .*\) .* Use SGD, which gives the"
    ):
        train(fed_gradients(lambda: optimizer.ASGD(0.01)), steps=1)
    one, other = (
        fed_gradients(make)
        for make in (lambda: optimizer.ASGD(0.01, 2), lambda: optimizer.SGD(0.01))
    )
    scopes = [initialised(built) for built in (one, other)]
    for built, scope in zip((one, other), scopes, strict=True):
        rng = np.random.RandomState(0)
        executor = paddle.static.Executor(paddle.CPUPlace())
        for _ in range(3):
            feed = {
                f"d_{name}": rng.standard_normal(read(scope, name).shape).astype(np.float32)
                for name in built.parameters
            }
            executor.run(built.main, feed=feed, scope=scope)
    for name in one.parameters:
        # Paddle's two kernels need not contract a product and a sum alike on every processor.
        np.testing.assert_allclose(
            read(scopes[0], name), read(scopes[1], name), rtol=1e-6, atol=1e-8
        )


def test_a_rate_that_the_program_computes_is_refused() -> None:
    class WarmedUp(optimizer.SGD):  # type: ignore[name-defined, misc]
        """As Paddle 1's, whose rates are results of operators."""

        def _create_param_lr(self, param_and_grad: Any) -> Any:
            return paddle.tanh(super()._create_param_lr(param_and_grad))

    with pytest.raises(
        NotSupported,
        match=r"tanh at .*: the learning rate is computed inside the program\. Use a scheduler of",
    ):
        train(fed_gradients(lambda: WarmedUp(0.01)), steps=1)
