"""A whole model beside Paddle's CPU executor: inference, and one step of training.

Weights begin where rounding stays rounding. The scales and biases of batch normalisation keep most
activations away from the kinks of ReLU and its like, where one of two equally good roundings turns
a derivative on, and keep running means off zero; biases begin off zero. Images are such that no
maximum of a pooling is a near tie on most processors; where one is, double precision decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

from tests.journeys.training import side_by_side
from tests.journeys.training.side_by_side import (
    Built,
    Pair,
    build,
    distance,
    read,
    variables,
    write,
)
from tests.models.in_double import gradients_in_double

Feed = dict[str, np.ndarray]

LOGITS = 1e-5
"""Of the norm of the outputs: sums of thousands of products, one behind the other."""

WEIGHTS = 1e-5
"""Of the norm of each weight and statistic, and of the norm of all gradients together.

Single gradients may be zero but for rounding: that of a bias before a normalisation is.
"""

_RATE = 0.01

_BATCH_NORM = re.compile(r"batch_norm(2d)?_\d+\.(?P<what>[wb]_\d)$")
_ALL_WEIGHTS = re.compile(r"^(lstm|gru)_\d+\.w_0$")
"""All weights of a recurrent layer in one piece, in the single ones' memory; nothing reads it."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model at reduced size.

    Attributes:
        network: makes the layers, in training mode.
        feed: what goes in, and the labels ``y`` [batch, 1] of the classes.
        outputs: takes the layers and the variables of the feed but ``y``, gives the logits
            [batch, classes] that are trained, the first of them to be compared.
    """

    network: Callable[[], Any]
    feed: Feed
    outputs: Callable[..., Sequence[Any]]

    def built(self, *, training: bool) -> Built:
        """The program: mean cross entropy, and one step of Momentum in training."""

        def make() -> tuple[list[str], dict[str, Any], Any]:
            inputs = {
                name: paddle.static.data(name, list(array.shape), array.dtype.name)
                for name, array in self.feed.items()
                if training or name != "y"
            }
            names, label = list(inputs), inputs.pop("y", None)
            network = self.network()
            if not training:
                network.eval()
            logits = self.outputs(network, *inputs.values())
            values = {"logits": logits[0]}
            if training:
                loss = paddle.add_n([paddle.nn.functional.cross_entropy(o, label) for o in logits])
                paddle.optimizer.Momentum(_RATE, 0.9).minimize(loss)
                values["loss"] = loss
            return names, values, None

        return build(make)

    def fed(self, built: Built) -> Feed:
        return {name: self.feed[name] for name in built.feeds}


def compile_beside(built: Built, *, training: bool, **options: Any) -> Pair:
    """The program compiled for the IPU, and a scope for Paddle's executor, begun alike."""
    cpu = _initialised(built)
    ipu = side_by_side.copied(cpu, variables(built.main))
    compiler = paddle.static.IpuCompiledProgram(
        built.main,
        scope=ipu,
        ipu_strategy=side_by_side.strategy(options, is_training=training, micro_batch_size=1),
    )
    return Pair(built, cpu, ipu, compiler, compiler.compile(built.feeds, built.fetches))


def _initialised(built: Built) -> Any:
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(built.startup)
    rng = np.random.RandomState(5)
    for name in built.parameters:
        write(scope, name, _moved(name, read(scope, name), rng))
    return scope


def _moved(name: str, array: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    normal, uniform = rng.standard_normal(array.shape), rng.uniform(size=array.shape)
    found = _BATCH_NORM.search(name)
    if found is not None:
        moved = {
            "w_0": 0.2 + 0.2 * uniform,
            # One channel in ten is switched off.
            "b_0": np.where(rng.uniform(size=array.shape) < 0.1, -2.0, 1.5 + uniform),
            "w_1": 0.1 * normal,
            "w_2": 0.5 + uniform,
        }[found["what"]]
    elif array.size == 0 or np.ptp(array) == 0.0:
        # A bias, a scale, a rate, or a state of the optimizer.
        moved = array + 0.1 * normal if array.ndim == 1 else array
    else:
        # Paddle draws others in each process.
        inputs = array.shape[0] if array.ndim == 2 else math.prod(array.shape[1:])
        moved = normal * math.sqrt((1.0 if array.ndim == 2 else 2.0) / inputs)
    return moved.astype(array.dtype)


def assert_infers_alike(model: Model) -> None:
    """Inference gives Paddle's outputs."""
    built = model.built(training=False)
    both = compile_beside(built, training=False)
    cpu, ipu = both.step(model.fed(built))
    assert distance(ipu["logits"], cpu["logits"]) <= LOGITS


def assert_trains_alike(model: Model) -> None:
    """One step gives Paddle's loss, outputs, gradients, weights and running statistics."""
    built = model.built(training=True)
    both = compile_beside(built, training=True)
    names = variables(built.main)
    before = side_by_side.snapshot(both.cpu, names)
    cpu, ipu = both.step(model.fed(built))
    assert distance(ipu["loss"], cpu["loss"]) <= LOGITS
    assert distance(ipu["logits"], cpu["logits"]) <= LOGITS
    both.weights_to_host()
    velocities = [name for name in names if "velocity" in name]
    got, expected = (_all_of(scope, velocities) for scope in (both.ipu, both.cpu))
    assert np.linalg.norm(expected) > 0
    has_ties = distance(got, expected) > WEIGHTS
    if has_ties:
        exact, moved = gradients_in_double(model, before, velocities, got)
        assert distance(got, exact) <= max(WEIGHTS, 2 * moved), "gradients"

    def expected_of(name: str) -> np.ndarray:
        velocity = f"{name}_velocity_0"
        if has_ties and velocity in velocities:
            return np.asarray(before[name] - _RATE * read(both.ipu, velocity))
        return read(both.cpu, name)

    far = {
        name: distance(read(both.ipu, name), expected_of(name))
        for name in names
        if name not in velocities and not _ALL_WEIGHTS.search(name)
    }
    assert {name: far[name] for name in far if far[name] > WEIGHTS} == {}
    moved = [name for name in far if np.any(read(both.cpu, name) != before[name])]
    assert len(moved) > len(far) / 2


def _all_of(scope: Any, names: Sequence[str]) -> np.ndarray:
    return np.concatenate([read(scope, name).reshape(-1) for name in names])


def images(batch: int, size: int, classes: int = 10, scale: float = 1.0) -> Feed:
    """Noise [batch, 3, size, size] with labels."""
    rng = np.random.RandomState(0)
    return {
        "x": (scale * rng.standard_normal((batch, 3, size, size))).astype(np.float32),
        "y": rng.randint(0, classes, (batch, 1)).astype(np.int64),
    }


def without_dropout(network: Any) -> Any:
    """The layers with every dropout at probability 0: devices draw different numbers."""
    for layer in network.sublayers():
        if isinstance(layer, paddle.nn.Dropout):
            layer.p = 0.0
    return network


def logits_of(network: Any, *inputs: Any) -> list[Any]:
    """What the layers give, as a list."""
    found = network(*inputs)
    return list(found) if isinstance(found, (list, tuple)) else [found]


Models = Mapping[str, Callable[[], Model]]
