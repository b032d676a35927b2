"""Programs compiled with one Scope share their variables, whichever of them writes them there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from tests.training.side_by_side import Pair, mlp, pair, rows, strategy, variables

pytestmark = pytest.mark.usefixtures("static_mode")


def _another(both: Pair, **config: Any) -> Any:
    """The pair's program compiled once more, with the same Scope."""
    compiler = paddle.static.IpuCompiledProgram(both.built.main, both.ipu, strategy(**config))
    return compiler.compile(both.built.feeds, both.built.fetches)


def _run(program: Any, both: Pair, step: int) -> Any:
    executor = paddle.static.Executor(paddle.IPUPlace())
    return executor.run(program, feed=rows(4, step), fetch_list=both.built.fetches)[0]


@pytest.mark.parametrize("how", ["weights_to_host", "save"])
def test_weights_that_one_program_wrote_reach_the_others(how: str, tmp_path: Path) -> None:
    both = pair(mlp(paddle.optimizer.SGD))
    testing = _another(both, is_training=False)
    for step in range(2):
        both.step(rows(4, step))
        if how == "save":
            with paddle.static.scope_guard(both.ipu):
                paddle.static.save(both.built.main, str(tmp_path / "model"))
        else:
            both.weights_to_host()
        (expected, _) = both.on_cpu(rows(4, step + 1))
        np.testing.assert_allclose(_run(testing, both, step + 1), expected, rtol=1e-5)
        both.on_ipu(rows(4, step + 1))


def test_a_program_that_never_ran_writes_no_older_weights() -> None:
    both = pair(mlp(paddle.optimizer.SGD))
    compiled_last = _another(both)
    both.step(rows(4))
    paddle.base.core.IpuBackend.get_instance().weights_to_host()
    compiled_last._backend.weights_to_host()
    both.assert_equal_weights(1e-5)


@pytest.mark.parametrize("written", [False, True])
def test_optimizer_state_goes_with_the_program_that_trains(
    written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the programs relieves the Scope of it."""
    monkeypatch.setattr("paddle_ipu.backend._WORTH_RELEASING", 0)
    both = pair(mlp(paddle.optimizer.Adam))
    programs = [both.program]
    for step, turn in enumerate((0, 0, 2, 0, 1)):
        if step in (1, 2):
            if written:
                both.weights_to_host()
            programs.append(_another(both))
        both.on_cpu(rows(4, step))
        _run(programs[turn], both, step)
    programs[2]._backend.weights_to_host()
    both.assert_equal_weights(1e-4, names=variables(both.built.main))
