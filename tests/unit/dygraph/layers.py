"""Layers and loops of these tests: each loop runs on Paddle's CPU kernels or on the IPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle
from paddle import nn

Array = np.ndarray[Any, Any]

X = np.random.default_rng(5).standard_normal((8, 6)).astype("float32")
Y = np.random.default_rng(6).integers(0, 4, 8)


class Classifier(nn.Layer):  # type: ignore[misc]
    """Returns its loss, or without labels its logits."""

    def __init__(self) -> None:
        super().__init__()
        # No bias before the normalisation, which would take it away again.
        self.first = nn.Linear(6, 8, bias_attr=False)
        self.norm = self.normalisation()
        self.last = nn.Linear(8, 4)

    def normalisation(self) -> Any:
        """None here."""
        return nn.Identity()

    def scores(self, x: Any) -> Any:
        """The logits."""
        return self.last(nn.functional.tanh(self.norm(self.first(x))))

    def forward(self, x: Any, y: Any = None) -> Any:
        logits = self.scores(x)
        if y is None:
            return logits
        return logits, nn.functional.cross_entropy(logits, y)


class Normalised(Classifier):
    """With parameters, and with statistics that a call in training mode writes."""

    def normalisation(self) -> Any:
        """Over the batch."""
        return nn.BatchNorm1D(8)


def made(kind: Callable[[], Any] = Classifier) -> Any:
    """A layer with the same weights each time."""
    paddle.seed(3)
    return kind()


def strategy(optimizer: Any = None, **options: Any) -> Any:
    """A registered strategy, with an optimizer to train with."""
    found = paddle.static.IpuStrategy()
    if options:
        found.set_options(options)
    if optimizer is not None:
        found.set_optimizer(optimizer)
    return found


def batch(rows: int) -> tuple[Any, Any]:
    """Inputs and labels."""
    return paddle.to_tensor(X[:rows]), paddle.to_tensor(Y[:rows])


def steps(layer: Any, optimizer: Any, sizes: Sequence[int], *, loop: bool) -> list[float]:
    """The losses of some steps; `loop` has backward and step of dynamic mode."""
    losses = []
    for rows in sizes:
        loss = layer(*batch(rows))[1]
        if loop:
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        losses.append(float(loss))
    return losses


def weights(layer: Any) -> dict[str, Array]:
    """Parameters and buffers."""
    return {name: tensor.numpy() for name, tensor in layer.state_dict().items()}


def state(optimizer: Any) -> list[Array]:
    """The optimizer's accumulators, which have other names in another layer."""
    found = optimizer.state_dict()
    names = [name for name in found if name not in ("LR_Scheduler", "master_weights")]
    return [found[name].numpy() for name in sorted(names, key=_without_numbers)]


def _without_numbers(name: str) -> tuple[str, ...]:
    kind, _, rest = name.partition(".")
    return (kind.rpartition("_")[0], rest)


def assert_same(got: Any, expected: Any, tolerance: float = 2e-6) -> None:
    """Each array within `tolerance` of the norm of the expected one."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        got, expected = list(got.values()), list(expected.values())
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        assert one.shape == other.shape
        assert np.linalg.norm(one - other) <= tolerance * max(float(np.linalg.norm(other)), 1.0)
