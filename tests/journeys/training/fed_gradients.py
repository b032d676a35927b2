"""A program whose gradients are fed: what an optimizer does, apart from everything else.

The loss is the sum of each parameter times a feed, so that both sides update by the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle

from tests.journeys.training.side_by_side import (
    Built,
    Pair,
    build,
    distance,
    pair,
    read,
    variables,
)

SHAPES = {"weight": (6, 5), "bias": (5,)}
"""Parameter -> its shape; the feed ``d_<name>`` is its gradient."""


def fed_gradients(
    optimizer: Callable[[], Any], attributes: Mapping[str, Mapping[str, Any]] | None = None
) -> Built:
    """A program of the parameters of :data:`SHAPES` and an optimizer.

    Args:
        optimizer: makes the optimizer.
        attributes: parameter -> keyword arguments of its ``ParamAttr``.
    """

    def make() -> tuple[list[str], dict[str, Any], Any]:
        terms = []
        for name, shape in SHAPES.items():
            attr = paddle.ParamAttr(name=name, **(attributes or {}).get(name, {}))
            start = paddle.nn.initializer.Normal()
            layer = paddle.create_parameter(shape, "float32", attr=attr, default_initializer=start)
            terms.append(paddle.sum(layer * paddle.static.data(f"d_{name}", shape, "float32")))
        loss = paddle.add_n(terms)
        made = optimizer()
        made.minimize(loss)
        rate = made._learning_rate
        scheduler = None if isinstance(rate, float) else rate
        return [f"d_{name}" for name in SHAPES], {"loss": loss}, scheduler

    return build(make)


def gradients(steps: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Feeds of `steps` steps: [steps, *shape] for each gradient."""
    rng = np.random.RandomState(0)
    return {
        f"d_{name}": (scale * (rng.standard_normal((steps, *shape)) + 0.2)).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def train(
    built: Built,
    options: Mapping[str, Any] | None = None,
    steps: int = 100,
    scale: float = 1.0,
) -> Pair:
    """Both sides after `steps` steps; the IPU goes through all of them in one run."""
    both = pair(built, {**(options or {}), "batches_per_step": steps})
    fed = gradients(steps, scale)
    for step in range(steps):
        both.on_cpu({name: array[step] for name, array in fed.items()})
    both.on_ipu({name: array.reshape(-1, *array.shape[2:]) for name, array in fed.items()})
    both.weights_to_host()
    return both


def assert_equal_to_paddle(built: Built, options: Mapping[str, Any] | None = None) -> Pair:
    """After 100 steps weights and states are Paddle's within 1e-6 of each tensor's norm."""
    both = train(built, options)
    pairs = {name: (read(both.ipu, name), read(both.cpu, name)) for name in variables(built.main)}
    far = {name: distance(*each) for name, each in pairs.items()}
    assert max(far.values()) <= 1e-6, far
    return both
