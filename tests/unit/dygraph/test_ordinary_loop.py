"""Without set_optimizer: a call is forward, and backward and step of dynamic mode do the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from paddle import nn

from paddle_ipu.errors import InvalidProgramError
from tests.unit.dygraph.layers import (
    Normalised,
    X,
    Y,
    assert_same,
    made,
    state,
    strategy,
    weights,
)

pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track:UserWarning")


class Odd(Normalised):
    """Two results, a parameter that none of them depends on, and one behind a detached value."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(6, 2)
        self.detached = nn.Linear(6, 4)

    def forward(self, x: Any, y: Any = None) -> Any:
        return (
            self.scores(x) + self.detached(x).detach(),
            self.first(x),
            self.unused(x).shape,
        )


def _looped(on_ipu: bool) -> list[Any]:
    layer = made(Odd)
    layer = paddle.jit.to_static(layer) if on_ipu else layer
    optimizer = paddle.optimizer.Adam(0.05, parameters=layer.parameters())
    registered = strategy() if on_ipu else None
    x, y = paddle.to_tensor(X), paddle.to_tensor(Y)
    x.stop_gradient = False
    found: list[Any] = []
    for _ in range(3):
        logits, hidden, _ = layer(x)
        loss = nn.functional.cross_entropy(logits, y) + 0.1 * hidden.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append(float(loss))
    layer.eval()
    with paddle.no_grad():
        found.append(layer(x)[0].numpy())
    found += [x.grad.numpy(), layer.unused.weight.grad is None, *weights(layer).values()]
    found += state(optimizer)
    if registered is not None:
        registered.release_patch()
    return found


def test_backward_and_step_of_dynamic_mode_equal_those_on_the_cpu() -> None:
    assert_same(_looped(True), _looped(False), 1e-5)


class Dropped(nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 64)

    def forward(self, x: Any) -> Any:
        return nn.functional.dropout(self.layer(x), 0.5, training=self.training)


def test_backward_drops_what_forward_dropped() -> None:
    layer = paddle.jit.to_static(made(Dropped))
    strategy()
    first, second = layer(paddle.to_tensor(X)), layer(paddle.to_tensor(X))
    state_before = paddle.get_rng_state()
    first.sum().backward()
    drawn_next = paddle.rand([3]).numpy()
    paddle.set_rng_state(state_before)
    assert_same([drawn_next], [paddle.rand([3]).numpy()], 0.0)
    kept = first.numpy() != 0
    assert 0.35 < kept.mean() < 0.65
    assert (kept != (second.numpy() != 0)).any()
    np.testing.assert_allclose(layer.layer.bias.grad.numpy(), 2.0 * kept.sum(0), rtol=1e-6)
    with pytest.raises(Exception, match=r"came after the layer's parameters were written"):
        layer.layer.bias.set_value(np.zeros(64, "float32"))
        second.sum().backward()
    layer.eval()
    np.testing.assert_allclose(
        layer(paddle.to_tensor(X)).numpy(), layer.layer(paddle.to_tensor(X)).numpy(), rtol=1e-5
    )


def test_a_function_infers_without_gradients() -> None:
    @paddle.jit.to_static
    def halved(x: Any, by: float = 2.0, plus: Any = None) -> Any:
        return x / by if plus is None else x / by + plus

    strategy()
    x = paddle.to_tensor(X)
    assert_same([halved(x).numpy(), halved(x, 4.0, plus=x).numpy()], [X / 2, X / 4 + X])
    assert halved(x).stop_gradient
    x.stop_gradient = False
    halved(x, 4.0).sum().backward()
    assert_same([x.grad.numpy()], [np.full((8, 6), 0.25)])


def test_a_step_after_calls_that_train_is_told_apart() -> None:
    """A layer of its own, beside one that calls train, is stepped by dynamic mode."""
    layer, beside = paddle.jit.to_static(made()), made()
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters() + beside.parameters())
    strategy(optimizer)
    before = weights(beside)
    loss = layer(paddle.to_tensor(X), paddle.to_tensor(Y))[1]
    total = loss + beside(paddle.to_tensor(X), paddle.to_tensor(Y))[1]
    total.backward()
    optimizer.step()
    assert_same(weights(layer), weights(beside), 1e-6)
    assert any((weights(beside)[name] != before[name]).any() for name in before)
    with pytest.raises(InvalidProgramError, match=r"must return one loss"):
        layer(paddle.to_tensor(X))


def test_what_a_loop_asks_for_that_calls_have_not_done_is_refused() -> None:
    """Two calls in one step, and a step of another optimizer than the calls have."""
    layer = paddle.jit.to_static(made())
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    other = paddle.optimizer.SGD(
        parameters=[{"params": layer.parameters()[:1]}, {"params": layer.parameters()[1:]}],
        learning_rate=0.1,
    )
    strategy(optimizer)
    x, y = paddle.to_tensor(X), paddle.to_tensor(Y)
    for _ in range(2):
        layer(x, y)[1].backward()
        optimizer.step()
        optimizer.clear_grad()
    # Calls alone are steps of their own.
    layer(x, y), layer(x, y)
    layer(x, y)[1].backward()
    with pytest.raises(Exception, match=r"no optimizer\.step\(\) between.*enable_gradient_accum"):
        layer(x, y)[1].backward()
    with pytest.raises(InvalidProgramError, match=r"finds no gradients of '.*with another optim"):
        other.step()
    layer(x, y)[1].backward()
    optimizer.step()


class _Towards(nn.Layer):  # type: ignore[misc]
    """A loss whose label is a parameter, to which the operator gives no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 1)
        half = nn.initializer.Constant(0.5)
        self.label = self.create_parameter([8, 1], default_initializer=half)

    def forward(self, x: Any) -> Any:
        return nn.functional.binary_cross_entropy(nn.functional.sigmoid(self.layer(x)), self.label)


def test_a_label_has_no_gradient_where_the_loss_gives_none() -> None:
    gradients = []
    for on_ipu in (False, True):
        layer = made(_Towards)
        call = paddle.jit.to_static(layer) if on_ipu else layer
        if on_ipu:
            strategy()
        call(paddle.to_tensor(X)).backward()
        gradients.append({name: value.grad for name, value in layer.named_parameters()})
    expected, got = gradients
    assert [name for name, value in got.items() if value is None] == ["label"]
    assert expected["label"] is None
    for name in ("layer.weight", "layer.bias"):
        assert_same([got[name].numpy()], [expected[name].numpy()])
