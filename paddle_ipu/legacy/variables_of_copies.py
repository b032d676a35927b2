"""``save_inference_model`` of a copy, with the variables of the program it was copied from.

``main.clone(for_test=True)`` keeps the names of a program, and ProgramDesc programs are saved by
names: scripts pass the copy beside feeds and fetches of the program itself. PIR goes by values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from paddle_ipu.dialect.paddle_objects import Program, Value
from paddle_ipu.dialect.value_names import find, name_of
from paddle_ipu.errors import InvalidProgramError

Variables = Value | Sequence[Value]


def normalizing(normalize: Callable[..., Any]) -> Callable[..., Any]:
    """Paddle's ``normalize_pir_program`` that takes variables of another copy of the program."""

    @functools.wraps(normalize)
    def normalize_own(
        program: Program, feed_vars: Variables, fetch_vars: Variables, **keywords: Any
    ) -> Program:
        feeds = _own(program, feed_vars, "feed_vars")
        fetches = _own(program, fetch_vars, "fetch_vars")
        normalized: Program = normalize(program, feeds, fetches, **keywords)
        return normalized

    return normalize_own


def _own(program: Program, variables: Variables, argument: str) -> list[Value]:
    if not isinstance(variables, (list, tuple)):
        variables = [variables]  # type: ignore[list-item]
    return [_own_variable(program, variable, argument) for variable in variables]


def _own_variable(program: Program, variable: Value, argument: str) -> Value:
    # Paddle itself refuses what is no value of a program.
    if not hasattr(variable, "get_defining_op"):
        return variable
    if variable.get_defining_op().get_parent_block().program == program:
        return variable
    name = name_of(variable)
    own = find(program, name)
    if own is None:
        raise InvalidProgramError(
            f"{argument} holds {name!r} of another program, and the program to save has no "
            "variable of that name. Give variables of the program itself, or of the one that it "
            "was cloned from."
        )
    return own
