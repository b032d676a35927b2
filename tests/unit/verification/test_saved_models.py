"""`paddle_ipu.verify` on saved models, those included that this Paddle has no program of."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.errors import FetchError, NotSupported
from paddle_ipu.frontend import saved_model
from tests.journeys.saved_models import models

OLD = [name for name in models.NAMES if name.startswith("paddle_2")]
OWN = models.NAMES if paddle.__version__.startswith("3.3") else OLD
"""Models that this Paddle can run: of PIR programs, not those of a newer one."""


@pytest.mark.parametrize("name", OWN)
def test_a_loaded_model_agrees_operator_by_operator(static_mode: None, name: str) -> None:
    scope = paddle.static.Scope()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(scope):
        program, _, fetches = paddle.static.load_inference_model(str(models.prefix(name)), executor)
    feed, expected = models.recorded(name)
    report = paddle_ipu.verify(program, feed, fetches, scope=scope, every_operator=True)
    assert report.ok
    assert {row.verdict for row in report.operators} == {"agrees"}
    assert [row.shape for row in report.fetches] == [array.shape for array in expected]


def for_the_ipu_alone(name: str) -> tuple[saved_model.SavedProgram, Any]:
    """(the program, a scope with its parameters)."""
    model = saved_model.read(saved_model.locate(models.prefix(name)))
    scope = paddle.static.Scope()
    for parameter, array in model.parameters.items():
        scope.var(parameter).get_tensor().set(np.array(array), paddle.CPUPlace())
    return model.program("it was loaded so"), scope


@pytest.mark.parametrize("name", ["paddle_2_6/attention", "paddle_2_6/conv_optimized"])
def test_a_program_desc_without_a_program_of_paddle_is_compared(
    static_mode: None, name: str
) -> None:
    """Paddle 3's executor runs a ProgramDesc too; afterwards it is in its own mode again."""
    program, scope = for_the_ipu_alone(name)
    kind = paddle.static.Program
    feed, _ = models.recorded(name)
    report = paddle_ipu.verify(
        program, feed, program.fetch_targets, scope=scope, every_operator=True
    )
    assert report.ok and len(report.operators) > 10
    assert paddle.static.Program is kind and paddle.framework.in_pir_mode() == (
        not paddle.__version__.startswith("2.")
    )
    with pytest.raises(FetchError, match="fetch_list holds a value of type float; expected names"):
        paddle_ipu.verify(program, feed, [0.5], scope=scope)


def test_a_saved_pir_program_is_refused_where_there_is_no_program_of_it(static_mode: None) -> None:
    program, scope = for_the_ipu_alone("paddle_3_3/mlp")
    feed, _ = models.recorded("paddle_3_3/mlp")
    with pytest.raises(
        NotSupported,
        match=r"cannot run SavedProgram\(.*mlp\.json.*: it was loaded so\. Verify it under the P",
    ):
        paddle_ipu.verify(program, feed, program.fetch_targets, scope=scope)
