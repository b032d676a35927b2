"""Every row of the operator case table: the IPU Model gives what Paddle's CPU executor gives."""

from __future__ import annotations

from typing import Any

import pytest

from paddle_ipu.errors import NotSupported
from paddle_ipu.xla.step.executable import Executable
from tests.operators.built_case import build_case, compile_case, lacks
from tests.operators.operator_case import OperatorCase, RefusedCase
from tests.operators.operator_cases import CASES, REFUSED
from tests.operators.run_case import run_case
from tests.versions.different_programs import DIFFERENT

# Where both versions' programs are the same, `make test` compares programs and not numbers.
EVERY = [
    case if case.name in DIFFERENT else pytest.param(case, marks=pytest.mark.newest)
    for case in CASES
]


def _skip_without(case: OperatorCase | RefusedCase) -> None:
    if missing := lacks(case):
        pytest.skip(missing)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The StableHLO of what is compiled."""
    texts: list[str] = []
    lower = Executable._lowered_for

    def told(self: Executable, *arguments: Any) -> Any:
        made = lower(self, *arguments)
        texts.append(made.as_text())
        return made

    monkeypatch.setattr(Executable, "_lowered_for", told)
    return texts


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_the_ipu_model_gives_paddles_numbers(case: OperatorCase, lowered: list[str]) -> None:
    _skip_without(case)
    run_case(case)
    # Integers of 64 bits bring none of floats.
    assert not any("f64>" in text for text in lowered)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_use_without_support_is_refused(case: RefusedCase) -> None:
    _skip_without(case)
    built = build_case(case)
    with pytest.raises(NotSupported, match=case.match) as caught:
        compile_case(built)
    # The message begins with the operator and the user's line.
    assert str(caught.value).startswith(f"{case.op}")
    assert ".py:" in str(caught.value)
