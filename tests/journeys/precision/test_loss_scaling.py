"""Decorated optimizers: loss scaling, constant and adapting, on programs of either kind."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.errors import NotSupported

paddle_ipu.activate()

WITH_PIR = not str(paddle.__version__).startswith("2.6.")

Array = np.ndarray[Any, Any]

X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


class Trained:
    """A small model trained for some steps; the scope then has what the device had."""

    def __init__(
        self,
        steps: int = 4,
        pure: bool = False,
        feed: Array = X,
        rule: str = "Adam",
        multi_precision: bool = False,
        option: float = 1.0,
        **scaling: Any,
    ) -> None:
        paddle.enable_static()
        paddle.seed(3)
        self.scope = paddle.static.Scope()
        main, startup = paddle.static.Program(), paddle.static.Program()
        with (
            paddle.static.program_guard(main, startup),
            paddle.utils.unique_name.guard(),
            paddle.static.scope_guard(self.scope),
        ):
            x = paddle.static.data("x", [4, 8], "float32")
            hidden = paddle.nn.functional.gelu(paddle.static.nn.fc(x, 8))
            loss = paddle.mean(paddle.square(paddle.static.nn.fc(hidden, 3)))
            optimizer = getattr(paddle.optimizer, rule)(
                0.01, **({"multi_precision": True} if multi_precision else {})
            )
            if scaling:
                optimizer = paddle.static.amp.decorate(
                    optimizer, use_pure_fp16=pure, use_fp16_guard=False, **scaling
                )
            with warnings.catch_warnings():
                # Paddle advises against Adam with half weights.
                warnings.simplefilter("ignore", UserWarning)
                optimizer.minimize(loss, startup)
            paddle.static.Executor(paddle.CPUPlace()).run(startup)
            if pure:
                optimizer.amp_init(paddle.CPUPlace(), scope=self.scope)
            self.before = self.parameters(main)
        self.main = main
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=True)
        strategy.set_options({"loss_scaling": option})
        ipu = paddle.static.IpuCompiledProgram(main, self.scope, strategy)
        gradient = f"Gradient___{main.all_parameters()[0].name}"
        program = ipu.compile(["x"], [loss, gradient])
        executor = paddle.static.Executor(paddle.IPUPlace())
        self.losses, self.gradients = [], []
        for _ in range(steps):
            fetched = executor.run(program, feed={"x": feed}, fetch_list=[loss, gradient])
            self.losses.append(float(fetched[0]))
            self.gradients.append(fetched[1])
        ipu._backend.weights_to_host()
        self.after = self.parameters(main)

    def names(self) -> list[str]:
        """Variables of the program that hold a value."""
        return [
            v.name for v in self.main.list_vars() if v.persistable and self.scope.find_var(v.name)
        ]

    def variable(self, name: str) -> Array:
        return np.array(self.scope.find_var(name).get_tensor())

    def parameters(self, program: Any) -> dict[str, Array]:
        names = [str(p.name) for p in program.global_block().all_parameters()]
        return {name: self.variable(name) for name in names if "learning_rate" not in name}

    @property
    def scale(self) -> tuple[float, int, int]:
        names = ("loss_scaling_0", "num_good_steps_0", "num_bad_steps_0")
        scale, good, bad = (self.variable(name) for name in names)
        assert (good.dtype, bad.dtype) == (np.int32, np.int32)
        return float(scale[0]), int(good[0]), int(bad[0])


def test_scaling_changes_no_loss() -> None:
    plain = Trained()
    scaled = Trained(init_loss_scaling=1024.0, use_dynamic_loss_scaling=False)
    np.testing.assert_allclose(scaled.losses, plain.losses, rtol=5e-3)
    assert scaled.losses[-1] < scaled.losses[0]
    assert scaled.variable("loss_scaling_0")[0] == 1024


def test_fetched_gradients_are_without_any_scale() -> None:
    plain = Trained(1)
    for option in (1.0, 4.0):
        scaled = Trained(1, option=option, init_loss_scaling=8.0, use_dynamic_loss_scaling=False)
        # Half has 11 bits, and a gradient is made from several numbers in half.
        np.testing.assert_allclose(scaled.gradients[0], plain.gradients[0], rtol=2e-2, atol=2e-4)


def test_good_steps_raise_the_scale() -> None:
    trained = Trained(5, init_loss_scaling=128.0, incr_every_n_steps=2, incr_ratio=4.0)
    assert trained.scale == (128.0 * 16, 1, 0)


@pytest.mark.parametrize("pure", [False, True])
def test_bad_steps_change_nothing_but_the_scale(pure: bool) -> None:
    trained = Trained(3, pure, init_loss_scaling=2.0**40, decr_every_n_nan_or_inf=2, decr_ratio=0.5)
    assert trained.scale == (2.0**39, 0, 1)
    for name, before in trained.before.items():
        np.testing.assert_array_equal(trained.after[name], before)
    assert len(set(trained.losses)) == 1


def test_the_scale_falls_until_gradients_fit() -> None:
    trained = Trained(
        40, init_loss_scaling=2.0**30, decr_every_n_nan_or_inf=1, decr_ratio=0.5
    )  # fmt: skip
    scale, good, bad = trained.scale
    assert 1 < scale < 2.0**30
    assert good > 0
    assert bad == 0
    assert trained.losses[-1] < trained.losses[0]


def test_other_rules_take_a_bad_gradient_for_zero() -> None:
    trained = Trained(2, rule="SGD", init_loss_scaling=2.0**40, decr_every_n_nan_or_inf=5)
    for name, before in trained.before.items():
        np.testing.assert_array_equal(trained.after[name], before)


def test_pure_half_keeps_half_weights_in_the_scope() -> None:
    trained = Trained(4, True, init_loss_scaling=64.0)
    assert {array.dtype.name for array in trained.after.values()} == {"float16"}
    assert trained.losses[-1] < trained.losses[0]


@pytest.mark.parametrize("rule", ["SGD", "Momentum", "AdamW", "Lamb"])
def test_multi_precision_updates_float32_weights_of_half_parameters(rule: str) -> None:
    """Under PIR the parameter itself is the float32 weight, and operators read it rounded."""
    trained = Trained(8, True, rule=rule, multi_precision=True, init_loss_scaling=64.0)
    masters = [n for n in trained.names() if re.search("fp32_master_0$", n)]
    assert bool(masters) is not WITH_PIR
    weights = {name: trained.variable(name) for name in masters} or trained.after
    for weight in weights.values():
        assert weight.dtype == np.float32
        assert (weight != weight.astype(np.float16)).any()
    for name in masters:
        half = trained.after[name.partition("_fp32_master")[0]]
        np.testing.assert_array_equal(half, trained.variable(name).astype(np.float16))


def test_a_loss_that_was_scaled_by_hand_is_refused() -> None:
    from paddle_ipu.passes.support.loss_scaling import without_scale
    from paddle_ipu.popart.paddle_optimizer import LossScale

    with pytest.raises(NotSupported, match="is not a product with the loss scaling 'scale_0'"):
        without_scale([], "loss", LossScale("scale_0"))  # type: ignore[arg-type]
