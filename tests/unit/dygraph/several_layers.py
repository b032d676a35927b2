"""Many layers, each with inputs of its own, as one: what their training gives, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import paddle
from paddle import nn

from tests.unit.dygraph.layer_case import Array, LayerCase
from tests.unit.dygraph.layers import strategy

_STEPS = 2


class _Fed(nn.Layer):  # type: ignore[misc]
    """A layer whose inputs are moved by parameters, so that these learn by their gradients."""

    def __init__(self, case: LayerCase, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        for at, array in enumerate(case.inputs):
            if array.dtype == np.float32:
                zero = nn.initializer.Constant(0.0)
                move = self.create_parameter(array.shape, default_initializer=zero)
                self.add_parameter(f"input{at}", move)

    def forward(self, *inputs: Any) -> Any:
        moved = []
        for at, x in enumerate(inputs):
            moved.append(x + self._parameters[f"input{at}"] if x.dtype == paddle.float32 else x)
        return paddle.utils.flatten(self.layer(*moved))


class SeveralLayers(nn.Layer):  # type: ignore[misc]
    """The layers of some rows; the loss is the sum of all they return, unevenly weighted.

    Args:
        on_ipu: with the rows' own layers, else with those of their oracles.
    """

    def __init__(self, cases: Sequence[LayerCase], on_ipu: bool) -> None:
        super().__init__()
        self.counts = [len(case.inputs) for case in cases]
        self.names = [case.name for case in cases]
        for case in cases:
            # Each has the same weights whatever others there are.
            paddle.seed(3)
            make = case.make if on_ipu or case.oracle is None else case.oracle
            fed = _Fed(case, make())
            if case.frozen:
                fed.eval()
            self.add_sublayer(case.name, fed)

    def forward(self, inputs: Any) -> Any:
        found, parts, at = [], [], 0
        for name, count in zip(self.names, self.counts):  # noqa: B905 - Paddle rewrites zip
            results = self._sub_layers[name](*inputs[at : at + count])
            at += count
            found.append(results)
            for result in results:
                if not result.stop_gradient and result.dtype == paddle.float32:
                    row = result.reshape([-1])
                    parts.append(
                        (row * paddle.cos(paddle.arange(row.shape[0], dtype="float32"))).sum()
                    )
        return found, paddle.incubate.identity_loss(paddle.add_n(parts), "none")


def trained(cases: Sequence[LayerCase], *, on_ipu: bool, loop: bool = False) -> dict[str, Array]:
    """What two steps of training give: results of each step, and what they change of a layer.

    Args:
        loop: on the IPU, with backward and step of dynamic mode.
    """
    # Names are the same whatever was made before, and XLA's cache finds the program again.
    with paddle.utils.unique_name.guard():
        layers = SeveralLayers(cases, on_ipu)
    run = paddle.jit.to_static(layers) if on_ipu else layers
    optimizer = paddle.optimizer.SGD(0.1, parameters=layers.parameters())
    registered = strategy(None if loop else optimizer) if on_ipu else None
    before = _state(layers)
    inputs = [paddle.to_tensor(array) for case in cases for array in case.inputs]
    found: dict[str, Array] = {}
    for step in range(_STEPS):
        results, loss = run(inputs)
        for case, several in zip(cases, results, strict=True):
            for number, result in enumerate(several):
                found[f"{case.name}: result {number} of step {step}"] = result.numpy()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    if registered is not None:
        registered.release_patch()
    changes = {f"{name}: changed by": now - before[name] for name, now in _state(layers).items()}
    return found | changes


def _state(layers: Any) -> dict[str, Array]:
    return {name: tensor.numpy().copy() for name, tensor in layers.state_dict().items()}
