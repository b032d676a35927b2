"""``optimizer_rule: popart``: a Paddle program's optimizer by PopART's equations, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle
import pytest
from paddle.incubate.optimizer import LarsMomentumOptimizer as Lars
from paddle.regularizer import L1Decay, L2Decay

from paddle_ipu import popart
from paddle_ipu.errors import NotSupported
from tests.journeys.training.fed_gradients import fed_gradients, gradients, train
from tests.journeys.training.side_by_side import Pair, distance, pair, read, variables, write
from tests.unit.sessions.test_adam import AdamReference, AdaptiveReference
from tests.unit.sessions.test_sgd import COMBINED
from tests.unit.sessions.test_sgd import Reference as SgdReference

optimizer, nn = paddle.optimizer, paddle.nn
AdamMode, AdaptiveMode = popart.AdamMode, popart.AdaptiveMode
DECAY, L2 = popart.WeightDecayMode.Decay, popart.WeightDecayMode.L2Regularization
RULE = {"optimizer_rule": "popart"}
STEPS = 10

Make = Callable[[Any], Any]


def sgd(**numbers: float) -> Make:
    form = COMBINED if numbers.get("mm") else None
    return lambda w: SgdReference(w, form, 0.01, **numbers)  # type: ignore[arg-type]


def adam(mode: Any, decay: Any, **numbers: float) -> Make:
    return lambda w: AdamReference(w, mode, decay, **{"lr": 0.01, "eps": 1e-8, **numbers})


def adaptive(mode: Any, **numbers: float) -> Make:
    return lambda w: AdaptiveReference(w, mode, L2, **{"lr": 0.01, **numbers})


RULES: dict[str, tuple[Callable[[], Any], Mapping[str, Any], Make]] = {
    "sgd": (lambda: optimizer.SGD(0.01, weight_decay=L2Decay(0.1)), {}, sgd(wd=0.1)),
    "momentum": (lambda: optimizer.Momentum(0.01, 0.8), {}, sgd(mm=0.8)),
    "momentum with Nesterov and decay": (
        lambda: optimizer.Momentum(0.01, 0.8, use_nesterov=True, weight_decay=0.1),
        {},
        sgd(mm=0.8, wd=0.1, nesterov=True),
    ),
    "adam": (lambda: optimizer.Adam(0.01, weight_decay=0.1), {}, adam(AdamMode.Adam, L2, wd=0.1)),
    "adam that decays": (
        lambda: optimizer.Adam(0.01, weight_decay=0.1),
        {"weight_decay_mode": "decay"},
        adam(AdamMode.Adam, DECAY, wd=0.1),
    ),
    "adam without bias": (
        lambda: optimizer.Adam(0.01, 0.8),
        {"use_no_bias_optimizer": True, "loss_scaling": 8.0, "scaled_optimizer_state": True},
        adam(AdamMode.AdamNoBias, L2, b1=0.8),
    ),
    "adamw": (lambda: optimizer.AdamW(0.01, weight_decay=0.1), {},
              adam(AdamMode.Adam, DECAY, wd=0.1)),
    "adamw by L2": (
        lambda: optimizer.AdamW(0.01, weight_decay=0.1),
        {"weight_decay_mode": "l2_regularization"},
        adam(AdamMode.Adam, L2, wd=0.1),
    ),
    "adamax": (lambda: optimizer.Adamax(0.01), {}, adam(AdamMode.AdaMax, L2)),
    "lamb": (lambda: optimizer.Lamb(0.01, 0.1), {},
             adam(AdamMode.Lamb, DECAY, wd=0.1, mwn=65504.0, eps=1e-6)),
    "lamb, bounded": (
        lambda: optimizer.Lamb(0.01, 0.1),
        {"max_weight_norm": 0.5, "use_no_bias_optimizer": True},
        adam(AdamMode.LambNoBias, DECAY, wd=0.1, mwn=0.5, eps=1e-6),
    ),
    "adagrad": (lambda: optimizer.Adagrad(0.01, weight_decay=0.1), {},
                adaptive(AdaptiveMode.AdaGrad, wd=0.1)),
    "adadelta": (lambda: optimizer.Adadelta(0.01, 1e-5, 0.9), {},
                 adaptive(AdaptiveMode.AdaDelta, a=0.9, eps=1e-5)),
    "rmsprop": (lambda: optimizer.RMSProp(0.01, 0.9, 1e-5), {},
                adaptive(AdaptiveMode.RMSProp, a=0.9, eps=1e-5)),
    "rmsprop, centred, with momentum": (
        lambda: optimizer.RMSProp(0.01, 0.9, 1e-3, 0.5, True),
        {},
        adaptive(AdaptiveMode.CenteredRMSProp, a=0.9, eps=1e-3, mm=0.5),
    ),
}  # fmt: skip


def followed(both: Pair, make: Mapping[str, Make] | Make, steps: int = STEPS) -> dict[str, Any]:
    """The reference of each parameter after the steps, which both sides start from."""
    fed = gradients(steps)
    found = {}
    for name in both.built.parameters:
        of = make[name] if isinstance(make, Mapping) else make
        found[name] = of(read(both.ipu, name))
    for step in range(steps):
        for name, reference in found.items():
            g = fed[f"d_{name}"][step].astype(np.float64)
            if isinstance(reference, SgdReference):
                reference.step([g])
            else:
                reference.step(reference.arriving(g))
    return found


def run(both: Pair, steps: int = STEPS) -> None:
    fed = gradients(steps)
    both.on_ipu({name: array.reshape(-1, *array.shape[2:]) for name, array in fed.items()})
    both.weights_to_host()


def compiled(make: Callable[[], Any], options: Mapping[str, Any], **attributes: Any) -> Pair:
    built = fed_gradients(make, attributes)
    return pair(built, {**RULE, **options, "batches_per_step": STEPS})


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_popart_s(name: str) -> None:
    make, options, reference = RULES[name]
    both = compiled(make, options)
    assert both.program.portable
    expected = followed(both, reference)
    run(both)
    for parameter, found in expected.items():
        assert distance(read(both.ipu, parameter), found.w) <= 5e-6, parameter


# -- single parameters, clips, rates --------------------------------------------------------------


def test_parameters_keep_their_own_rate_and_decay() -> None:
    both = compiled(
        lambda: optimizer.Adam(0.01, weight_decay=0.1),
        {},
        weight={"learning_rate": 0.5, "regularizer": L2Decay(0.3)},
    )
    make = {
        "weight": adam(AdamMode.Adam, L2, lr=0.005, wd=0.3),
        "bias": adam(AdamMode.Adam, L2, wd=0.1),
    }
    expected = followed(both, make)
    run(both)
    for parameter, found in expected.items():
        assert distance(read(both.ipu, parameter), found.w) <= 5e-6, parameter


def test_a_weight_that_is_not_trained_stays() -> None:
    both = compiled(lambda: optimizer.AdamW(0.01), {}, bias={"trainable": False})
    before = read(both.ipu, "bias")
    run(both)
    np.testing.assert_array_equal(read(both.ipu, "bias"), before)
    assert distance(read(both.ipu, "weight"), read(both.cpu, "weight")) > 0.01


@pytest.mark.parametrize("some", [False, True], ids=["all", "some"])
def test_a_clip_by_global_norm_is_popart_s(some: bool) -> None:
    """Without momentum PopART clips the gradient with the loss scaling still in it."""
    both = compiled(
        lambda: optimizer.SGD(0.01, grad_clip=nn.ClipGradByGlobalNorm(2.0)),
        {"loss_scaling": 4.0},
        bias={"need_clip": not some},
    )
    start = {name: read(both.ipu, name).astype(np.float64) for name in both.built.parameters}
    clipped = ["weight"] if some else ["weight", "bias"]
    fed = gradients(STEPS)
    for step in range(STEPS):
        norm = np.sqrt(sum((4.0 * fed[f"d_{name}"][step] ** 2).sum() * 4.0 for name in clipped))
        for name in start:
            factor = 2.0 / max(norm, 2.0) if name in clipped else 1.0
            start[name] = start[name] - 0.01 * factor * fed[f"d_{name}"][step]
    run(both)
    for name, expected in start.items():
        assert distance(read(both.ipu, name), expected) <= 1e-6, name


def test_a_rate_is_changed_between_runs() -> None:
    scheduler = optimizer.lr.ExponentialDecay(0.01, 0.5)
    both = compiled(lambda: optimizer.RMSProp(scheduler, 0.9), {}, weight={"learning_rate": 3.0})
    numbers = {"a": 0.9, "eps": 1e-6}
    mode = AdaptiveMode.RMSProp
    references = {
        name: AdaptiveReference(read(both.ipu, name), mode, L2, **numbers) for name in ("weight",)
    }
    for _ in range(3):
        for step in range(STEPS):
            for name, reference in references.items():
                reference.n["lr"] = 3.0 * scheduler()
                reference.step(gradients(STEPS)[f"d_{name}"][step].astype(np.float64))
        run(both)
        scheduler.step()
    assert distance(read(both.ipu, "weight"), references["weight"].w) <= 5e-6


# -- state ----------------------------------------------------------------------------------------

MOVING = {
    "momentum": (lambda: optimizer.Momentum(0.01, 0.8, weight_decay=0.1), {}, 1e-5),
    "adamw": (lambda: optimizer.AdamW(0.01), {}, 1e-5),
    "adamax": (lambda: optimizer.Adamax(0.01), {}, 1e-5),
    "adam in half": (lambda: optimizer.Adam(0.01, epsilon=1e-3), {"accl1_type": "FLOAT16"}, 2e-3),
    "lamb in scaled units": (
        lambda: optimizer.Lamb(0.01), {"loss_scaling": 8.0, "scaled_optimizer_state": True}, 1e-5,
    ),
    "adagrad": (lambda: optimizer.Adagrad(0.01, initial_accumulator_value=0.5), {}, 1e-5),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVING)
def test_state_moves_to_paddle_and_back(name: str) -> None:
    """Where the rules agree but for epsilon, Paddle goes on from PopART's state and back."""
    make, options, tolerance = MOVING[name]
    built = fed_gradients(make)
    both = pair(built, {**RULE, **options, "batches_per_step": STEPS})
    fed = gradients(STEPS)

    def on_cpu(scope: Any) -> None:
        for step in range(STEPS):
            with paddle.static.scope_guard(scope):
                paddle.static.Executor(paddle.CPUPlace()).run(
                    built.main, feed={key: array[step] for key, array in fed.items()}
                )

    names = [n for n in variables(built.main) if "learning_rate" not in n]
    # Paddle first, so that the device starts from its state; then turn about.
    on_cpu(both.cpu)
    for each in names:
        write(both.ipu, each, read(both.cpu, each))
    both.program.weights_from_host()
    run(both)
    on_cpu(both.cpu)
    for each in names:
        assert distance(read(both.ipu, each), read(both.cpu, each)) <= tolerance, each


# -- what PopART does not have --------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "rule": (
        lambda: Lars(0.01, 0.9),
        r"PopART has no rule lars_momentum; it has adadelta, .*, sgd\. Leave the option at 'pad",
    ),
    "L1": (lambda: optimizer.Adam(0.01, weight_decay=L1Decay(0.1)), "no L1 decay, which"),
    "rescaling": (lambda: optimizer.Momentum(0.01, rescale_grad=0.5), "no rescale_grad"),
    "adapting": (lambda: optimizer.Lamb(0.01, always_adapt=True), "whether Lamb always adapts"),
    "clip by value": (
        lambda: optimizer.SGD(0.01, grad_clip=nn.ClipGradByValue(0.1)),
        "no clip by value; it has ClipGradByGlobalNorm",
    ),
    "clip by norm": (
        lambda: optimizer.SGD(0.01, grad_clip=nn.ClipGradByNorm(0.1)), "no clip by norm; it has",
    ),
    "clip of adaptive": (
        lambda: optimizer.Adagrad(0.01, grad_clip=nn.ClipGradByGlobalNorm(0.1)),
        "no clip for adagrad",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_popart_lacks_is_named(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(NotSupported, match=message):
        train(fed_gradients(make), RULE, steps=1)
