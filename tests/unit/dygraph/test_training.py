"""A to_static layer that calls train gives what Paddle's own loop in dynamic mode gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from paddle import nn

from paddle_ipu.compiler.compiled_program import IpuCompiledProgram
from paddle_ipu.errors import InvalidProgramError
from tests.unit.dygraph.layers import (
    Classifier,
    Normalised,
    X,
    assert_same,
    batch,
    made,
    state,
    steps,
    strategy,
    weights,
)

pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track:UserWarning")

Make = Callable[[Any], Any]


def _groups(layer: Any) -> Any:
    return paddle.optimizer.AdamW(
        0.05,
        parameters=[
            {"params": layer.first.parameters(), "learning_rate": 0.1, "weight_decay": 0.2},
            {"params": layer.last.parameters()},
        ],
        weight_decay=0.01,
    )


def _momentum(layer: Any) -> Any:
    return paddle.optimizer.Momentum(
        paddle.optimizer.lr.StepDecay(0.1, step_size=2, gamma=0.5),
        parameters=layer.parameters(),
        weight_decay=paddle.regularizer.L2Decay(0.01),
        grad_clip=nn.ClipGradByGlobalNorm(0.5),
    )


def _adam(layer: Any) -> Any:
    return paddle.optimizer.Adam(0.05, parameters=layer.parameters())


def _trained(
    make: Make, *, on_ipu: bool, loop: bool, whole: bool = True, kind: Any = Classifier
) -> tuple[Any, ...]:
    layer = made(kind)
    if on_ipu:
        layer = paddle.jit.to_static(layer, full_graph=whole)
    optimizer = make(layer)
    registered = strategy(optimizer) if on_ipu else None
    losses = []
    # Two shapes, side by side, share weights and optimizer state.
    for rows in (8, 8, 6, 8, 6):
        losses += steps(layer, optimizer, [rows], loop=loop)
        if isinstance(optimizer._learning_rate, paddle.optimizer.lr.LRScheduler):
            optimizer._learning_rate.step()
    result = losses, weights(layer), state(optimizer)
    if registered is not None:
        registered.release_patch()
    return result


@pytest.mark.parametrize(
    ("make", "loop", "whole", "kind"),
    [
        (_adam, False, True, Classifier),
        (_momentum, True, False, Normalised),
        pytest.param(_groups, True, True, Classifier, marks=pytest.mark.thorough),
    ],
    ids=["adam, one call", "momentum, scheduler and clip, Paddle's loop", "groups"],
)
def test_training_equals_dynamic_mode_on_the_cpu(
    make: Make, loop: bool, whole: bool, kind: Any
) -> None:
    expected = _trained(make, on_ipu=False, loop=True, kind=kind)
    got = _trained(make, on_ipu=True, loop=loop, whole=whole, kind=kind)
    for one, other in zip(got, expected, strict=True):
        assert_same(one, other, 1e-5)


def test_an_interrupted_compilation_leaves_the_optimizer_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def train(interrupted: bool) -> list[float]:
        layer = paddle.jit.to_static(made())
        optimizer = _momentum(layer)
        registered = strategy(optimizer)
        if interrupted:
            with monkeypatch.context() as patch:
                patch.setattr(IpuCompiledProgram, "compile", _interrupted)
                # Whoever keeps the exception keeps what was being made.
                with pytest.raises(KeyboardInterrupt) as kept:
                    steps(layer, optimizer, [8], loop=False)
                assert kept.tb is not None
        losses = steps(layer, optimizer, [8, 8], loop=False)
        registered.release_patch()
        return losses

    assert train(interrupted=True) == train(interrupted=False)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_evaluation_between_steps_and_a_loop_on_the_cpu_afterwards() -> None:
    def run(on_ipu: bool) -> Any:
        layer = made()
        layer = paddle.jit.to_static(layer) if on_ipu else layer
        optimizer = _adam(layer)
        registered = strategy(optimizer) if on_ipu else None
        found = []
        for _ in range(2):
            found += steps(layer, optimizer, [8, 8], loop=not on_ipu)
            layer.eval()
            found.append(layer(paddle.to_tensor(X)).numpy())
            layer.train()
            with paddle.no_grad():
                # No step, but the statistics of the batch.
                found.append(layer(*batch(8))[1].numpy())
        if registered is not None:
            registered.release_patch()
        found += steps(layer, optimizer, [8, 8], loop=True)
        return found, weights(layer), state(optimizer)

    for one, other in zip(run(True), run(False), strict=True):
        assert_same(one, other, 1e-5)


def test_a_loop_that_begins_on_the_cpu_goes_on_on_the_ipu() -> None:
    """``clear_grad`` leaves gradients of zero, which a call that trains has no step for."""

    def trained(on_ipu: bool) -> tuple[Any, ...]:
        layer = made()
        called = paddle.jit.to_static(layer) if on_ipu else layer
        optimizer = _momentum(layer)
        before = steps(called, optimizer, [8], loop=True)
        assert layer.last.weight.grad is not None
        if on_ipu:
            strategy(optimizer)
        after = steps(called, optimizer, [8, 4], loop=True)
        return before + after, weights(layer), state(optimizer)

    for got, expected in zip(trained(True), trained(False), strict=True):
        assert_same(got, expected)


def test_weights_and_state_that_are_saved_loaded_and_written(tmp_path: Path) -> None:
    def run(on_ipu: bool) -> list[Any]:
        layer = made()
        layer = paddle.jit.to_static(layer) if on_ipu else layer
        optimizer = _adam(layer)
        if on_ipu:
            strategy(optimizer)
        found: list[Any] = steps(layer, optimizer, [8, 8], loop=not on_ipu)
        paddle.save(layer.state_dict(), str(tmp_path / "layer.pdparams"))
        paddle.save(optimizer.state_dict(), str(tmp_path / "layer.pdopt"))
        found += steps(layer, optimizer, [8, 8], loop=not on_ipu)
        layer.set_state_dict(paddle.load(str(tmp_path / "layer.pdparams")))
        optimizer.set_state_dict(paddle.load(str(tmp_path / "layer.pdopt")))
        again = steps(layer, optimizer, [8, 8], loop=not on_ipu)
        assert again == found[-2:]
        layer.last.weight.set_value(np.full((8, 4), 0.25, "float32"))
        nn.initializer.Constant(0.5)(layer.last.bias)
        with paddle.no_grad():
            layer.first.weight[0] = 0.125
        optimizer.set_lr(0.2)
        found += steps(layer, optimizer, [8, 8], loop=not on_ipu)
        # A backend that is reset is compiled again, and nothing is lost.
        if on_ipu:
            paddle.base.core.IpuBackend.get_instance().reset()
        return [*found, *steps(layer, optimizer, [8], loop=not on_ipu), *state(optimizer)]

    assert_same(run(True), run(False), 1e-5)


@pytest.mark.thorough
def test_a_frozen_parameter_and_changed_options_are_compiled_again() -> None:
    def run(on_ipu: bool) -> Any:
        layer = made()
        layer = paddle.jit.to_static(layer) if on_ipu else layer
        optimizer = _adam(layer)
        registered = strategy(optimizer) if on_ipu else None
        found = steps(layer, optimizer, [8], loop=not on_ipu)
        layer.last.weight.stop_gradient = True
        found += steps(layer, optimizer, [8, 8], loop=not on_ipu)
        layer.last.weight.stop_gradient = False
        if registered is not None:
            registered.set_options({"optimizer_rule": "popart"})
        return [*found, *steps(layer, optimizer, [8], loop=not on_ipu)], weights(layer)

    for one, other in zip(run(True), run(False), strict=True):
        assert_same(one, other, 1e-5)


class Marked(nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = Classifier()

    def forward(self, x: Any, y: Any) -> Any:
        logits, loss = self.inner(x, y)
        other = logits.mean()
        return [logits, {"other": other}], paddle.incubate.identity_loss(loss, "none"), "text"


def test_the_marked_loss_is_the_one_and_other_results_keep_their_structure() -> None:
    layer = paddle.jit.to_static(made(Marked))
    strategy(_adam(layer))
    plain = made(Marked)
    (logits, named), loss, text = layer(*batch(8))
    (expected, _), expected_loss, _ = plain(*batch(8))
    assert text == "text"
    assert_same([logits.numpy(), loss.numpy()], [expected.numpy(), expected_loss.numpy()])
    assert_same([named["other"].numpy()], [expected.numpy().mean()])


def test_half_trains_within_its_precision() -> None:
    plain = made()
    expected = steps(plain, _adam(plain), [8, 8, 8], loop=True)
    layer = paddle.jit.to_static(made())
    optimizer = _adam(layer)
    registered = strategy(optimizer)
    registered.set_precision_config(enable_fp16=True)
    x, y = batch(8)
    got = [layer(x.astype("float16"), y)[1] for _ in expected]
    assert got[0].dtype == paddle.float16
    np.testing.assert_allclose([float(loss) for loss in got], expected, atol=0.05)


def test_gradient_accumulation_takes_the_rows_of_a_whole_step() -> None:
    layer, plain = paddle.jit.to_static(made(Unnormalised)), made(Unnormalised)
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    strategy(optimizer, enable_gradient_accumulation=True, accumulation_factor=2)
    own = paddle.optimizer.SGD(0.1, parameters=plain.parameters())
    losses = layer(*batch(8))
    assert list(losses.shape) == [2]
    (plain(*batch(8))).backward()
    own.step()
    assert_same(weights(layer), weights(plain), 1e-6)
    with pytest.raises(ValueError, match=r"do not divide into 2 micro-batches"):
        layer(*batch(7))


class Unnormalised(nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 4)

    def forward(self, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(self.last(x), y)


def test_what_cannot_be_trained_is_refused() -> None:
    layer = paddle.jit.to_static(made())
    optimizer = _adam(layer)
    registered = strategy(optimizer)
    with pytest.raises(InvalidProgramError, match=r"must return one loss.*it has 0"):
        layer(paddle.to_tensor(X))
    registered.set_graph_config(is_training=False)
    with pytest.raises(InvalidProgramError, match=r"is_training is False"):
        layer(*batch(8))
    registered.set_graph_config(is_training=True)
    two = paddle.jit.to_static(made(TwoLosses))
    registered.set_optimizer(_adam(two))
    with pytest.raises(InvalidProgramError, match=r"it has 2 such.*identity_loss"):
        two(*batch(8))
    registered.set_optimizer(_adam(made()))
    with pytest.raises(InvalidProgramError, match=r"trains none of the layer's parameters"):
        layer(*batch(8))


class TwoLosses(nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = Classifier()

    def forward(self, x: Any, y: Any) -> Any:
        logits, loss = self.inner(x, y)
        return loss, logits.mean()


def test_a_loop_that_would_train_otherwise_raises() -> None:
    layer = paddle.jit.to_static(made())
    optimizer = _adam(layer)
    strategy(optimizer)
    logits, loss = layer(*batch(8))
    # Paddle wraps what a backward raises in an error of its own.
    with pytest.raises(Exception, match=r"0\.5 as the gradient of the loss"):
        (loss * 0.5).backward()
    logits, loss = layer(*batch(8))
    with pytest.raises(Exception, match=r"reached an output of the layer other than its loss"):
        logits.sum().backward()
    before = weights(layer)
    layer.last.weight.square().sum().backward()
    with pytest.raises(InvalidProgramError, match=r"would update them twice"):
        optimizer.step()
    optimizer.clear_grad()
    assert_same(weights(layer), before, 0.0)


def test_a_released_strategy_leaves_layers_to_the_cpu() -> None:
    layer = paddle.jit.to_static(made(), full_graph=True)
    registered = strategy()
    layer.eval()
    on_ipu = layer(paddle.to_tensor(X)).numpy()
    registered.release_patch()
    assert paddle.optimizer.lr.LRScheduler.step.__name__ == "step"
    on_cpu = layer(paddle.to_tensor(X)).numpy()
    registered.register_patch()
    assert_same([on_ipu], [on_cpu])
    layer.last.bias.set_value(np.ones(4, "float32"))
    assert np.abs(layer(paddle.to_tensor(X)).numpy() - on_cpu).max() > 0.5
