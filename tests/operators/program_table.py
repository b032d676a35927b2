"""Every row of the operator case table as a named program, for ``tools.program_forms``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tests.operators.built_case import build_case, lacks
from tests.operators.operator_case import OperatorCase
from tests.operators.operator_cases import CASES
from tools.program_forms.named_program import NamedProgram


def named_program(case: OperatorCase) -> NamedProgram:
    """A row as a program with the values of its parameters."""
    built = build_case(case)
    return NamedProgram(
        built.program,
        list(built.feed),
        list(built.fetches.values()),
        built.training,
        built.parameters,
    )


PROGRAMS: Mapping[str, Callable[[], NamedProgram]] = {
    case.name: partial(named_program, case) for case in CASES if not lacks(case)
}
