"""Stable names for the values of a PIR program, which has names for parameters and data only.

ProgramDesc programs name every variable, and scripts fetch by ``loss.name``. Here :func:`name_of`
names an intermediate on first use: it writes the name on the defining operator, as the string
attribute ``paddle_ipu.name.<result>``. Attributes survive ``Program.clone()``. The patched
``Program.clone()`` names every value first, so that all copies have the same names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from paddle_ipu.dialect.paddle_objects import Block, Program, Value
from paddle_ipu.errors import InvalidProgramError

NAME_PREFIX = "paddle_ipu.name."
"""Prefix of the attribute that holds the name of an operator's result; its number follows."""

_numbers = itertools.count()


def name_of(value: Value) -> str:
    """The name of a value: Paddle's own where it has one, else one that is written on its operator.

    Parameters, ``static.data`` and values with a shadow output have names of Paddle's; their
    operators are left alone.

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


def name_all(program: Program) -> None:
    """Gives every value of a program a name, those of nested blocks included."""
    for value in _values(program.global_block()):
        if is_variable(value):
            name_of(value)


def is_variable(value: Value) -> bool:
    """Whether a value can have a name: one that is left out cannot, nor a list of values."""
    return value.initialized() and value.type().as_vec_type() is None


def _values(block: Block) -> Iterator[Value]:
    for operator in block.ops:
        yield from operator.results()
        for nested in operator.blocks():
            yield from _values(nested)


def find(program: Program, name: str) -> Value | None:
    """The value called `name` in a program or in one of its nested blocks, or None.

    Args:
        program: a ``paddle.pir.Program``.
        name: one that :func:`name_of` returned for this program or the one it was cloned from,
            or one of Paddle's own.
    """
    return next((value for found, value in named_values(program) if found == name), None)


def named_values(program: Program) -> Iterator[tuple[str, Value]]:
    """Every (name, value) of a program in the order of its operators, nested blocks included.

    Values without a name are left out. A value with several names comes once for each.
    """
    yield from _named_in(program.global_block())


def _named_in(block: Block) -> Iterator[tuple[str, Value]]:
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
    """Paddle's property ``Value.name`` with a name of :func:`name_of` where Paddle's raises."""

    def get_name(value: Value) -> str:
        if value.has_name:
            found: str = name.__get__(value)
            return found
        return name_of(value)

    return property(get_name, name.fset, name.fdel, name.__doc__)
