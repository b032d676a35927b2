"""Names of PopART's classes that mean nothing for an IPU Model."""

from __future__ import annotations

from typing import NoReturn

from paddle_ipu.errors import UnsupportedNameError


class Absent:
    """An attribute that says why it is not there.

    Args:
        why: the reason, a clause.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise UnsupportedNameError(f"'{owner.__name__}' does not have '{self._name}': {self.why}.")


def absent_names(kind: type) -> dict[str, str]:
    """Attributes of a class, and of those it comes from, that are not there: name -> why."""
    return {
        name: value.why
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, Absent)
    }
