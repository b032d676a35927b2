"""Each optimizer and scheduler trains a to_static layer as Paddle's dynamic mode on the CPU."""

from __future__ import annotations

from typing import Any

import paddle
import pytest
from paddle import nn

from paddle_ipu.errors import NotSupported
from tests.unit.dygraph.cases.optimizer import OPTIMIZERS, REFUSED, SCHEDULERS, OptimizerCase
from tests.unit.dygraph.layers import assert_same, batch, made, state, steps, strategy, weights

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

_TOLERANCE = 2e-5


def _trained(case: OptimizerCase, on_ipu: bool) -> tuple[Any, ...]:
    layer = made()
    layer = paddle.jit.to_static(layer) if on_ipu else layer
    before = weights(layer)
    before = {name: array.copy() for name, array in before.items()}
    optimizer = case.make(layer.parameters())
    registered = strategy(optimizer) if on_ipu else None
    losses = steps(layer, optimizer, [8, 8, 8], loop=True)
    changes = {name: array - before[name] for name, array in weights(layer).items()}
    found = losses, changes, state(optimizer)
    if registered is not None:
        registered.release_patch()
    return found


@pytest.mark.parametrize("case", OPTIMIZERS, ids=[case.name for case in OPTIMIZERS])
def test_losses_updates_and_state_equal_those_on_the_cpu(case: OptimizerCase) -> None:
    for one, other in zip(_trained(case, True), _trained(case, False), strict=True):
        assert_same(one, other, _TOLERANCE)


def test_each_scheduler_sets_the_rate_of_each_step() -> None:
    """One program takes the rates of all of them."""

    def run(on_ipu: bool) -> list[Any]:
        layer = made()
        layer = paddle.jit.to_static(layer) if on_ipu else layer
        first = SCHEDULERS["StepDecay"]()
        optimizer = paddle.optimizer.SGD(first, parameters=layer.parameters())
        registered = strategy(optimizer) if on_ipu else None
        found: list[Any] = []
        for make in SCHEDULERS.values():
            scheduler = make()
            optimizer.set_lr_scheduler(scheduler)
            for _ in range(3):
                loss = layer(*batch(8))[1]
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
                scheduler.step(*([loss] if "Plateau" in type(scheduler).__name__ else []))
                found += [float(loss), layer.first.weight.numpy(), optimizer.get_lr()]
        if registered is not None:
            registered.release_patch()
        return found

    assert_same(run(True), run(False), _TOLERANCE)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_in_a_program_is_refused_and_steps_on_the_host(kind: str) -> None:
    def run(on_ipu: bool) -> Any:
        layer = made()
        layer = paddle.jit.to_static(layer) if on_ipu else layer
        optimizer = getattr(paddle.optimizer, kind)(parameters=layer.parameters())

        def loss() -> Any:
            optimizer.clear_grad()
            found = layer(*batch(8))[1]
            found.backward()
            return found

        if on_ipu:
            strategy(optimizer)
            refused = rf"paddle\.optimizer\.{kind} .*leave out set_optimizer"
            with pytest.raises(NotSupported, match=refused):
                layer(*batch(8))
            strategy()
        for _ in range(2):
            if kind == "LBFGS":
                optimizer.step(loss)
            else:
                loss()
                optimizer.step()
        return weights(layer)

    expected = run(False)
    # Many steps of LBFGS, each by the loss of the one before.
    assert_same(run(True), expected, 1e-3 if kind == "LBFGS" else _TOLERANCE)


def test_every_optimizer_scheduler_clip_and_regularizer_has_a_row() -> None:
    rows = {case.kind for case in OPTIMIZERS} | {*REFUSED}
    assert rows == {*paddle.optimizer.__all__}
    # LRScheduler is the base of all of them.
    assert {*SCHEDULERS, "LRScheduler"} == {*paddle.optimizer.lr.__all__}
    covered = {name for case in OPTIMIZERS for name in case.covers}
    clips = {name for name in nn.__all__ if name.startswith("ClipGrad")}
    assert covered == clips | {*paddle.regularizer.__all__}
