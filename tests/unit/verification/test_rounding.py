"""What `paddle_ipu.verify` takes for rounding, and the faults that it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.verification import rounding, sides
from paddle_ipu.verification.comparison import compare
from paddle_ipu.verification.contents import OperatorRow
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.xla import lowerings  # noqa: F401 - fills the registry
from paddle_ipu.xla.lowerings import registry
from paddle_ipu.xla.optimizers import update_rules

Array = np.ndarray[Any, Any]
F, nn = paddle.nn.functional, paddle.nn


@dataclass
class Model:
    """A program with the loss, its variables and a feed."""

    main: Any
    scope: Any
    feed: Mapping[str, Array]
    fetches: list[Any]

    def verify(self, **keywords: Any) -> VerificationReport:
        keywords = {"raise_on_mismatch": False, **keywords}
        return paddle_ipu.verify(
            self.main, self.feed, self.fetches, scope=self.scope, **keywords
        )  # fmt: skip


def build(
    network: Callable[[Any], list[Any]], shape: tuple[int, ...], optimizer: Any = None
) -> Model:
    """A program with ``network(x) -> fetches``, the first of them the loss."""
    paddle_ipu.activate()
    paddle.enable_static()
    paddle.seed(5)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        fetches = network(paddle.static.data("x", [-1, *shape[1:]], "float32"))
        if optimizer is not None:
            optimizer().minimize(fetches[0])
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
    feed = {"x": np.random.default_rng(0).standard_normal(shape, np.float32)}
    return Model(main, scope, feed, fetches)


def adam() -> Any:
    return paddle.optimizer.Adam(0.01)


def conv_net(x: Any) -> list[Any]:
    """Two convolutions with batch norm, channels weighed by a softmax, and a layer behind."""
    for channels in (8, 16):
        x = F.relu(nn.BatchNorm2D(channels)(nn.Conv2D(x.shape[1], channels, 3, padding=1)(x)))
    x = F.softmax(x.mean([2, 3])) * x.max([2, 3])
    out = nn.Linear(16, 4)(x)
    return [(out * out).mean(), out]


def transformer(x: Any) -> list[Any]:
    """A block of attention with a feed-forward part."""
    q, k, v = (nn.Linear(16, 16)(x) for _ in range(3))
    x = nn.LayerNorm(16)(x + paddle.matmul(F.softmax(paddle.matmul(q, k, transpose_y=True)), v))
    x = nn.LayerNorm(16)(x + nn.Linear(32, 16)(F.gelu(nn.Linear(16, 32)(x))))
    out = nn.Linear(16, 4)(x)
    return [(out * out).mean(), out]


def resnet(x: Any) -> list[Any]:
    out = paddle.vision.models.resnet18(num_classes=10)(x)
    return [(out * out).mean(), out]


def resnet_in_inference(x: Any) -> list[Any]:
    model = paddle.vision.models.resnet18(num_classes=10)
    model.eval()
    return [model(x)]


SHAPES = {conv_net: (8, 3, 12, 12), transformer: (4, 6, 16), resnet: (2, 3, 64, 64)}
NETWORKS = [conv_net, transformer, pytest.param(resnet, marks=pytest.mark.long)]


# -- faults --------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def other_epsilon(patch: pytest.MonkeyPatch) -> None:
    """Norms add 1e-4 to the variance where the program says 1e-5."""
    for key in list(registry._LOWERINGS):
        if key[1] in ("BatchNormalization", "GroupNormalization"):
            patch.setitem(registry._LOWERINGS, key, _with(registry._LOWERINGS[key], epsilon=1e-4))


def _with(right: Any, **changed: Any) -> Any:
    return lambda context, inputs, attributes: right(context, inputs, {**attributes, **changed})


def no_bias_correction(patch: pytest.MonkeyPatch) -> None:
    """Adam's rate is the learning rate itself."""
    right = update_rules.NUMBERS["adam"]

    def numbers(settings: Any, lr: Any, powers: Any, corrected: bool) -> Any:
        return {**right(settings, lr, powers, corrected), "rate": lr}

    patch.setitem(update_rules.NUMBERS, "adam", numbers)  # type: ignore[misc]


def wrong_axis(patch: pytest.MonkeyPatch) -> None:
    """Softmax goes along the first axis."""
    key = ("ai.onnx", "Softmax")
    patch.setitem(registry._LOWERINGS, key, lambda context, x, _: jax.nn.softmax(x[0], axis=0))


def one_weight(patch: pytest.MonkeyPatch) -> None:
    """One element of the largest weight is 1e-3 larger on the IPU."""
    real = sides.Ipu.__init__

    def init(self: Any, case: Any, fetches: Any, state: Any, **keywords: Any) -> None:
        weights = case.forward.gradients.values() or case.state
        name = max(weights, key=lambda name: (case.state[name].size, name))
        changed = state[name].copy()
        changed.reshape(-1)[changed.size // 2] += np.float32(1e-3)
        real(self, case, fetches, {**state, name: changed}, **keywords)

    patch.setattr(sides.Ipu, "__init__", init)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("plant", [other_epsilon, no_bias_correction, wrong_axis, one_weight])
def test_faults_are_no_rounding(
    network: Any, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    rate = 0.01 + 0.0001 * (plant is no_bias_correction)
    report = build(network, SHAPES[network], lambda: paddle.optimizer.Adam(rate)).verify()
    print(report.explanation())
    assert report.verdict == "differs"
