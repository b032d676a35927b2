"""A layer and its optimizer, called, read, written and interrupted in any order.

Whether a call runs on the IPU or on the CPU, weights and optimizer state are those of dynamic mode.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from tests.unit.weight_model import (
    WIDTH,
    Moment,
    Row,
    Values,
    Weighted,
    maybe_interrupted,
    try_orders,
)

_MOMENTS = st.none() | st.integers(0, 8).map(Moment)
_NUMBERS = st.tuples(*[st.integers(-3, 3).map(float)] * WIDTH)
_BATCHES = st.lists(_NUMBERS, min_size=1, max_size=2)


def _summed(batch: list[Row]) -> Row:
    return tuple(map(float, np.sum(batch, axis=0)))


class LayerWeights(RuleBasedStateMachine):
    """Trains by calls or by a loop, on either device."""

    @initialize(sets_optimizer=st.booleans())
    def begin(self, sets_optimizer: bool) -> None:
        self.sets_optimizer = sets_optimizer
        self.known = frozenset([Values((0.0,) * WIDTH, (0.0,) * WIDTH)])
        with paddle.utils.unique_name.guard():
            self.layer = paddle.jit.to_static(Weighted())
            self.optimizer = paddle.optimizer.Momentum(
                1.0, momentum=1.0, parameters=self.layer.parameters()
            )
        self.strategy: Any = None
        self.saved: list[tuple[dict[str, Any], dict[str, Any], Values]] = []

    def teardown(self) -> None:
        if getattr(self, "strategy", None) is not None:
            self.strategy.release_patch()
        gc.collect()

    def seen(self, test: Callable[[Values], bool], what: str) -> None:
        left = frozenset(filter(test, self.known))
        assert left, f"{what}, and it can be {sorted(self.known)}"
        self.known = left

    @precondition(lambda self: self.strategy is None)
    @rule()
    def to_the_ipu(self) -> None:
        self.strategy = paddle.static.IpuStrategy()
        if self.sets_optimizer:
            self.strategy.set_optimizer(self.optimizer)

    @precondition(lambda self: self.strategy is not None)
    @rule()
    def to_the_cpu(self) -> None:
        self.strategy.release_patch()
        self.strategy = None

    @precondition(lambda self: self.strategy is not None)
    @rule(on=st.booleans())
    def change_an_option(self, on: bool) -> None:
        """Has the next call compile anew."""
        self.strategy.set_options({"enable_stochastic_rounding": on})

    @rule(batch=_BATCHES, moment=_MOMENTS)
    def train(self, batch: list[Row], moment: Moment | None) -> None:
        self.layer.train()
        loss = None
        with maybe_interrupted(moment) as told:
            loss = self.layer(paddle.to_tensor(np.array(batch, np.float32)))
            loss.backward()
            self.optimizer.step()
        self.optimizer.clear_grad()
        x = _summed(batch)
        if loss is not None:
            self.lost(x, float(loss))
        after = frozenset(values.trained(x) for values in self.known)
        self.known = after | self.known if told[0] else after

    @rule(batch=_BATCHES, moment=_MOMENTS)
    def evaluate(self, batch: list[Row], moment: Moment | None) -> None:
        self.layer.eval()
        loss = None
        with maybe_interrupted(moment), paddle.no_grad():
            loss = self.layer(paddle.to_tensor(np.array(batch, np.float32)))
        if loss is not None:
            self.lost(_summed(batch), float(loss))

    def lost(self, x: Row, loss: float) -> None:
        self.seen(
            lambda values: loss == sum(a * b for a, b in zip(x, values.weight, strict=True)),
            f"the loss of {x} is {loss}",
        )

    @rule()
    def read_weights(self) -> None:
        weight = tuple(self.layer.weight.numpy().tolist())
        self.seen(lambda values: values.weight == weight, f"the weight is {weight}")

    @rule()
    def read_state(self) -> None:
        found = [v for k, v in self.optimizer.state_dict().items() if "velocity" in k]
        velocity = tuple(found[0].numpy().tolist()) if found else (0.0,) * WIDTH
        self.seen(lambda values: values.velocity == velocity, f"the velocity is {velocity}")

    @rule(weight=_NUMBERS, in_place=st.booleans())
    def write(self, weight: Row, in_place: bool) -> None:
        array = np.array(weight, np.float32)
        if in_place:
            with paddle.no_grad():
                self.layer.weight.zero_()
                self.layer.weight.add_(paddle.to_tensor(array))
        else:
            self.layer.weight.set_value(array)
        self.known = frozenset(values._replace(weight=weight) for values in self.known)

    @rule()
    def save(self) -> None:
        self.read_weights()
        self.read_state()
        (values,) = self.known
        weights = {name: tensor.numpy() for name, tensor in self.layer.state_dict().items()}
        state = {
            name: paddle.to_tensor(kept.numpy()) if hasattr(kept, "numpy") else kept
            for name, kept in self.optimizer.state_dict().items()
        }
        if any("velocity" in name for name in state):
            self.saved.append((weights, state, values))

    @precondition(lambda self: self.saved)
    @rule(number=st.integers(0, 9))
    def load(self, number: int) -> None:
        weights, state, values = self.saved[number % len(self.saved)]
        self.layer.set_state_dict(weights)
        self.optimizer.set_state_dict(dict(state))
        self.known = frozenset([values])


@pytest.mark.parametrize("examples", [15, pytest.param(400, marks=pytest.mark.thorough)])
def test_a_layer_has_the_weights_of_dynamic_mode(examples: int) -> None:
    try_orders(LayerWeights, examples)
