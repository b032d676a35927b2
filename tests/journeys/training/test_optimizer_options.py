"""Options of the strategy that change Paddle's own rules: decay, Lamb's bound, types of state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import NotSupported
from tests.journeys.training.fed_gradients import fed_gradients, gradients, train
from tests.journeys.training.side_by_side import distance, pair, read
from tests.unit.sessions.test_adam import AdamReference

optimizer = paddle.optimizer
DECAY, L2 = popart.WeightDecayMode.Decay, popart.WeightDecayMode.L2Regularization
Make = Callable[[], Any]

# What a mode makes of an optimizer is another optimizer of Paddle's.
MODES: dict[str, tuple[Make, str, Make]] = {
    "adam that decays is adamw": (
        lambda: optimizer.Adam(0.01, weight_decay=0.1),
        "decay",
        lambda: optimizer.AdamW(0.01, weight_decay=0.1),
    ),
    "adamw by L2 is adam": (
        lambda: optimizer.AdamW(0.01, weight_decay=0.1),
        "l2_regularization",
        lambda: optimizer.Adam(0.01, weight_decay=0.1),
    ),
    "lamb by L2": (
        lambda: optimizer.Lamb(0.01, 0.1),
        "l2_regularization",
        lambda: _with_l2(optimizer.Lamb(0.01, 0.0, always_adapt=True)),
    ),
    "momentum is of neither family": (
        lambda: optimizer.Momentum(0.01, weight_decay=0.1),
        "decay",
        lambda: optimizer.Momentum(0.01, weight_decay=0.1),
    ),
}


def _with_l2(made: Any) -> Any:
    made.regularization = paddle.regularizer.L2Decay(0.1)
    return made


@pytest.mark.parametrize("name", MODES)
def test_a_decay_mode_overrides_the_rules(name: str) -> None:
    make, mode, other = MODES[name]
    both = train(fed_gradients(make), {"weight_decay_mode": mode})
    oracle = train(fed_gradients(other))
    for parameter in both.built.parameters:
        assert distance(read(both.ipu, parameter), read(oracle.cpu, parameter)) <= 1e-6


RULES: dict[str, tuple[Make, dict[str, Any], Any, Any, dict[str, float]]] = {
    "adamax that decays": (
        lambda: optimizer.Adamax(0.01, weight_decay=0.1),
        {"weight_decay_mode": "decay"},
        popart.AdamMode.AdaMax,
        DECAY,
        {"wd": 0.1, "eps": 1e-8},
    ),
    "lamb, bounded": (
        lambda: optimizer.Lamb(0.01, 0.1),
        {"max_weight_norm": 0.5},
        popart.AdamMode.Lamb,
        DECAY,
        {"wd": 0.1, "mwn": 0.5},
    ),
    "lamb without the ratio": (
        lambda: optimizer.Lamb(0.01, 0.1),
        {"max_weight_norm": 0.0},
        popart.AdamMode.Lamb,
        DECAY,
        {"wd": 0.1, "mwn": 0.0},
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_where_the_rules_agree_the_equations_are_popart_s(name: str) -> None:
    make, options, mode, decay, numbers = RULES[name]
    steps = 10
    both = pair(fed_gradients(make), {**options, "batches_per_step": steps})
    fed = gradients(steps)
    references = {
        name: AdamReference(read(both.ipu, name), mode, decay, lr=0.01, **numbers)
        for name in both.built.parameters
    }
    for step in range(steps):
        for name, reference in references.items():
            reference.step(reference.arriving(fed[f"d_{name}"][step]))
    both.on_ipu({key: array.reshape(-1, *array.shape[2:]) for key, array in fed.items()})
    both.weights_to_host()
    for name, reference in references.items():
        assert distance(read(both.ipu, name), reference.w) <= 5e-6


HALF_STATE: dict[str, tuple[Make, dict[str, str]]] = {
    "adam": (
        lambda: optimizer.Adam(0.01, beta2=0.9),
        {"accl1_type": "_moment1_0", "accl2_type": "_moment2_0"},
    ),
    "adamax": (lambda: optimizer.Adamax(0.01), {"accl1_type": "_moment_0"}),
    "rmsprop": (
        lambda: optimizer.RMSProp(0.01, momentum=0.5, centered=True),
        {"accl2_type": "_mean_grad_0", "accl3_type": "_momentum_0"},
    ),
}


@pytest.mark.parametrize("name", HALF_STATE)
def test_state_is_kept_in_half(name: str) -> None:
    make, states = HALF_STATE[name]
    both = train(fed_gradients(make), dict.fromkeys(states, "FLOAT16"))
    suffixes = ("_moment1_0", "_moment2_0", "_moment_0", "_mean_grad_0", "_momentum_0")
    for suffix in suffixes:
        variable = both.ipu.find_var(f"weight{suffix}")
        if variable is None:
            continue
        got, expected = read(both.ipu, f"weight{suffix}"), read(both.cpu, f"weight{suffix}")
        assert got.dtype == np.float32
        on_the_grid = np.array_equal(got, got.astype(np.float16).astype(np.float32))
        assert on_the_grid is (suffix in states.values()), suffix
        assert distance(got, expected) <= 5e-3, suffix
    for parameter in both.built.parameters:
        far = distance(read(both.ipu, parameter), read(both.cpu, parameter))
        assert 0 < far <= 5e-3, parameter


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizer.Adam(0.01, beta2=0.9, epsilon=1e-9),
        lambda: optimizer.Lamb(0.01, beta2=0.9, epsilon=1e-9),
        lambda: optimizer.Adamax(0.01, epsilon=1e-9),
    ],
    ids=["adam", "lamb", "adamax"],
)
def test_scaled_state_holds_small_gradients_in_half(make: Make) -> None:
    built = fed_gradients(make)
    options = {"accl1_type": "FLOAT16", "accl2_type": "FLOAT16", "loss_scaling": 2.0**14}

    def off(scaled: bool) -> float:
        both = train(built, {**options, "scaled_optimizer_state": scaled}, scale=1e-6)
        return distance(read(both.ipu, "weight"), read(both.cpu, "weight"))

    assert off(scaled=True) <= 5e-3
    assert not off(scaled=False) <= 0.02


def test_scaled_state_in_float32_changes_nothing() -> None:
    options = {"loss_scaling": 2.0**10, "scaled_optimizer_state": True}
    both = train(fed_gradients(lambda: optimizer.AdamW(0.01)), options)
    for name in ("weight", "bias", "weight_moment1_0", "weight_moment2_0"):
        assert distance(read(both.ipu, name), read(both.cpu, name)) <= 1e-6, name


AUTOMATIC = {"automatic_loss_scaling_settings.enabled": True}


def test_scaled_state_and_an_automatic_loss_scaling_are_refused() -> None:
    options = {**AUTOMATIC, "scaled_optimizer_state": True}
    with pytest.raises(NotSupported, match="do not go together: turn one of them off"):
        train(fed_gradients(lambda: optimizer.Adam(0.01)), options, steps=1)


def test_gradients_with_a_scale_that_nobody_knows_are_refused() -> None:
    built = fed_gradients(lambda: optimizer.Adam(0.01))
    options = {**AUTOMATIC, "optimizer_rule": "popart"}
    with pytest.raises(NotSupported, match="PopART returns them with a scale that is not known"):
        pair(built, options, fetches=["Gradient___weight"])
