"""Every row of the operator case table on the way to hardware: what Graphcore's module is called.

A stand-in that is as strict as its bindings takes the module's place. A program that it has no
operators for is refused by name before a session is made, one with integers that do not fit the
IPU's by what does not fit.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from paddle_ipu.errors import FeedError, NotPortableError, NotSupported
from tests.operators.built_case import BuiltCase, build_case, compile_case, lacks, static_mode
from tests.operators.operator_case import OperatorCase
from tests.operators.operator_cases import cases_by_operator
from tests.popart_stand_in import StandIn

pytestmark = [pytest.mark.usefixtures("static_mode"), pytest.mark.long]

BY_OPERATOR = cases_by_operator()
TOO_WIDE = "does not fit the 32-bit integers of an IPU|is shifted in the device's 32 bits"


def _forms(case: OperatorCase) -> list[OperatorCase]:
    """The case, and that of inference where it trains."""
    return [case, dataclasses.replace(case, gradient=())] if case.gradient else [case]


def _hand_off(popart: StandIn, built: BuiltCase) -> None:
    """Compiles, runs and reads the weights back."""
    compiled = compile_case(built, optimizer_rule="popart")
    kind = "TrainingSession" if built.training else "InferenceSession"
    assert len(popart.named(kind)) == 1
    with static_mode():
        results = compiled.run(dict(built.feed), list(built.fetches.values()))
        if built.training:
            compiled.weights_to_host()
            assert popart.named("_Session.readWeights")
    for result in results:
        assert not np.any(result)


@pytest.mark.parametrize("operator", BY_OPERATOR)
def test_a_row_is_what_graphcores_module_takes(operator: str, graphcores: StandIn) -> None:
    for case in BY_OPERATOR[operator]:
        for one in _forms(case) if not lacks(case) else []:
            del graphcores.calls[:]
            try:
                _hand_off(graphcores, build_case(one))
            except NotPortableError as error:
                assert "operator ai.paddle_ipu." in str(error)
                made = {call.name for call in graphcores.calls}
                assert not made & {"TrainingSession", "InferenceSession"}
            except (FeedError, NotSupported) as error:
                assert re.search(TOO_WIDE, str(error)), case.name
