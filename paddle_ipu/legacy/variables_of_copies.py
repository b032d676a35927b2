"""``save_inference_model`` of a copy, with the variables of the program it was copied from.

``main.clone(for_test=True)`` keeps the names of a program, and ProgramDesc programs are saved by
names: scripts pass the copy beside feeds and fetches of the program itself. PIR goes by values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paddle_ipu.dialect.value_names import find, name_of
from paddle_ipu.errors import InvalidProgramError


def normalizing(normalize: Callable[..., Any]) -> Callable[..., Any]:
    """Paddle's ``normalize_pir_program`` that takes variables of another copy of the program."""

    @functools.wraps(normalize)
    def with_own_variables(program: Any, feed_vars: Any, fetch_vars: Any, **keywords: Any) -> Any:
        feeds = _own(program, feed_vars, "feed_vars")
        return normalize(program, feeds, _own(program, fetch_vars, "fetch_vars"), **keywords)

    return with_own_variables


def _own(program: Any, variables: Any, argument: str) -> Any:
    if not isinstance(variables, (list, tuple)):
        variables = [variables]
    return [_found(program, variable, argument) for variable in variables]


def _found(program: Any, variable: Any, argument: str) -> Any:
    # What is no value of a program at all, Paddle refuses.
    if not hasattr(variable, "get_defining_op"):
        return variable
    if variable.get_defining_op().get_parent_block().program == program:
        return variable
    name = name_of(variable)
    found = find(program, name)
    if found is None:
        raise InvalidProgramError(
            f"{argument} holds {name!r} of another program, and the program to save has no "
            "variable of that name. Give variables of the program itself, or of the one that it "
            "was cloned from."
        )
    return found
