"""Powers of Adam's betas: one number on the device while all parameters' are equal."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

from tests.journeys.training.side_by_side import Pair, mlp, pair, read, rows, variables, write

RULES = {
    "adam": lambda rate: paddle.optimizer.Adam(rate),
    "adamw": lambda rate: paddle.optimizer.AdamW(rate, weight_decay=0.1),
    "lamb": lambda rate: paddle.optimizer.Lamb(rate, lamb_weight_decay=0.1),
}


def _powers(both: Pair) -> list[str]:
    return [name for name in variables(both.built.main) if "_pow_acc" in name]


def _set_back(both: Pair) -> None:
    """Gives one parameter the powers of an earlier step, as a checkpoint of a part would."""
    for name in (name for name in _powers(both) if name.startswith(both.built.parameters[0])):
        beta = 0.9 if "beta1" in name else 0.999
        for scope in (both.cpu, both.ipu):
            write(scope, name, np.asarray([beta], np.float32))


@pytest.mark.parametrize("rule", RULES)
def test_parameters_with_powers_of_their_own(rule: str) -> None:
    both = pair(mlp(RULES[rule]))
    for step in range(3):
        cpu, ipu = both.step(rows(4, step))
    both.weights_to_host()
    _set_back(both)
    both.program.weights_from_host()
    for step in range(3, 6):
        cpu, ipu = both.step(rows(4, step))
        np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-5)
    both.assert_equal_weights(1e-5, names=[*both.built.parameters, *_powers(both)])
    assert len({float(read(both.ipu, name)[0]) for name in _powers(both)}) == 4


def test_powers_that_differ_before_the_first_step() -> None:
    both = pair(mlp(RULES["adam"]))
    for step in range(3):
        both.step(rows(4, step))
    both.weights_to_host()
    _set_back(both)
    again = paddle.static.IpuCompiledProgram(
        both.built.main, scope=both.ipu, ipu_strategy=both.compiler._ipu_strategy
    )
    second = Pair(
        both.built, both.cpu, both.ipu, again, again.compile(both.built.feeds, both.built.fetches)
    )
    for step in range(3, 5):
        cpu, ipu = second.step(rows(4, step))
        np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-5)
    second.assert_equal_weights(1e-5, names=[*both.built.parameters, *_powers(both)])
