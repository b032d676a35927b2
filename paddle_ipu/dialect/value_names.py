"""Stable names for the values of a PIR program, which has names for parameters and data only.

Legacy programs name every variable, and scripts fetch by ``loss.name``. Here the first question
for an intermediate's name stamps one on its defining operator, as the string attribute
``paddle_ipu.name.<result>``: attributes survive ``Program.clone()``, so a clone finds it too.
The patched ``Program.clone()`` first asks for every name, so that it does not matter of which copy
a script asks, and when.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from paddle_ipu.errors import InvalidProgramError

NAME_PREFIX = "paddle_ipu.name."
"""Attribute under which an operator carries the name given to its result of that number."""

_numbers = itertools.count()


def name_of(value: Any) -> str:
    """The name of a value: Paddle's own where it has one, else a stamped one.

    A parameter, a ``static.data`` and a value with a shadow output have names of their own; their
    operators are not touched.

    Args:
        value: a ``paddle.pir.Value``, or a ``Variable`` of a ProgramDesc, which always has a name.

    Raises:
        InvalidProgramError: it is neither.
    """
    if not hasattr(value, "has_name") or value.has_name:
        name = getattr(value, "name", None)
        if name is None:
            raise InvalidProgramError(
                f"expected a variable of a program, or its name, got {value!r} of type "
                f"{type(value).__name__}. Feeds and fetches are what paddle.static.data and the "
                "layers returned, or their names."
            )
        return str(name)
    operator = value.get_defining_op()
    attribute = f"{NAME_PREFIX}{value.index()}"
    if operator.has_attr(attribute):
        return str(operator.str_attr(attribute))
    kind = operator.name().rpartition(".")[2]
    name = f"{kind}_{next(_numbers)}.tmp_{value.index()}"
    operator.set_str_attr(attribute, name)
    return name


def name_all(program: Any) -> None:
    """Gives every value of a program a name, those of nested blocks included."""
    for value in _values(program.global_block()):
        # A list of values has no name of its own, its members have.
        if value.initialized() and value.type().as_vec_type() is None:
            name_of(value)


def _values(block: Any) -> Iterator[Any]:
    for operator in block.ops:
        yield from operator.results()
        for nested in operator.blocks():
            yield from _values(nested)


def find(program: Any, name: str) -> Any | None:
    """The value called `name` in a program or in one of its nested blocks, or None.

    Args:
        program: a ``paddle.pir.Program``.
        name: a name that :func:`name_of` gave in this program or in the one it was cloned from,
            or one of Paddle's own names.
    """
    for found, value in named_values(program):
        if found == name:
            return value
    return None


def named_values(program: Any) -> Iterator[tuple[str, Any]]:
    """Every (name, value) of a program in the order of its operators, nested blocks included.

    Values nobody has asked a name of are left out. A value can come more than once, under the
    stamped name and under one that Paddle gave it later.
    """
    yield from _named_in(program.global_block())


def _named_in(block: Any) -> Iterator[tuple[str, Any]]:
    for operator in block.ops:
        for index in range(operator.num_results()):
            value = operator.result(index)
            if operator.has_attr(f"{NAME_PREFIX}{index}"):
                yield str(operator.str_attr(f"{NAME_PREFIX}{index}")), value
            if value.initialized() and value.has_name:
                for name in value._names:
                    yield str(name), value
        for nested in operator.blocks():
            yield from _named_in(nested)


def naming_intermediates(name: property) -> property:
    """Paddle's property ``Value.name`` with a stamped name where Paddle's raises."""

    def get_name(value: Any) -> str:
        if value.has_name:
            found: str = name.__get__(value)
            return found
        return name_of(value)

    return property(get_name, name.fset, name.fdel, name.__doc__)
