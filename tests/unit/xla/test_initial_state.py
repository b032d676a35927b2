"""Optimizer state before the first step, where the host gives none."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu.popart.paddle_optimizer import MASTER, RULES, PaddleOptimizer, ParameterUpdate
from paddle_ipu.xla.optimizers.optimizer import PaddleUpdater
from paddle_ipu.xla.optimizers.update_rules import NUMBERS
from paddle_ipu.xla.optimizers.update_rules import RULES as FUNCTIONS


def _updater(rule: str, types: tuple[str, str, str] = ("float32",) * 3) -> PaddleUpdater:
    row = RULES[rule]
    states = {name: name for name in (*row.states, *row.powers, MASTER)}
    settings = {"beta1": 0.5, "beta2": 0.25}
    update = ParameterUpdate("w", rule, settings, states)
    return PaddleUpdater(PaddleOptimizer((update,), state_types=types), {"w": "w"})


@pytest.mark.parametrize("rule", RULES)
def test_state_of_a_rule(rule: str) -> None:
    weight = np.asarray([1.5, 2.5], np.float16)
    state = _updater(rule).initial_state({"w": weight})  # type: ignore[dict-item]
    row = RULES[rule]
    for name in row.states:
        expected = np.full(2, 1.0 if name in row.ones else 0.0, np.float32)
        np.testing.assert_array_equal(state.pop(name), expected, strict=True, err_msg=name)
    for name, beta in row.powers.items():
        first = np.asarray([0.5 if beta == "beta1" else 0.25], np.float32)
        np.testing.assert_array_equal(state.pop(name), first, strict=True)
    np.testing.assert_array_equal(state.pop(MASTER), weight.astype(np.float32), strict=True)
    assert not state


def test_moments_in_half() -> None:
    dtypes = _updater("radam", ("float16", "float32", "float16")).state_dtypes()
    assert dtypes["moment1"] == "float16"
    assert {dtypes[name] for name in dtypes.keys() - {"moment1"}} == {"float32"}


def test_every_rule_has_its_function() -> None:
    assert RULES.keys() == FUNCTIONS.keys()
    assert {name for name, row in RULES.items() if row.powers} == NUMBERS.keys()
