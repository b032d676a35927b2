"""What a row of the table of patches is, and the Paddle versions it may be for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SUPPORTED_VERSIONS = ("2.6", "3.0", "3.1", "3.2", "3.3")
"""The Paddle versions, as major.minor, that this plugin knows."""

WITH_PIR = ("3.0", "3.1", "3.2", "3.3")
"""Those whose static programs are PIR programs; 2.6 has the classes, but builds none of them."""


Switch = Callable[[bool], None]
"""Puts a patch into effect, or takes it back."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One row: an attribute of a module of Paddle, or of a class in it, that is replaced.

    Attributes:
        module: the module to patch, imported if need be.
        attribute: the name in it, dotted for an attribute of a class.
        replacement: what takes its place.
        reason: why it is patched.
        wraps: `replacement` is a function that makes the new object from the original one.
        required: Paddle must have the attribute; False for names only an IPU build has, and, where
            it is wrapped, for names that only some Paddles have.
        versions: Paddle versions that the row is for, as major.minor.
        name: of the replacement, where it has none of its own.
        where_absent: what is wrapped may be missing; `replacement` then gets an object that cannot
            be called.
        connect: of a row that is in effect at times only: takes the function that switches it.
    """

    module: str
    attribute: str
    replacement: Any
    reason: str
    wraps: bool = False
    required: bool = True
    versions: tuple[str, ...] = SUPPORTED_VERSIONS
    name: str = ""
    where_absent: bool = False
    connect: Callable[[Switch], None] | None = None

    @property
    def target(self) -> str:
        """The full name of what is replaced."""
        return f"{self.module}.{self.attribute}"

    @property
    def replacement_name(self) -> str:
        """The replacement's module and name."""
        if self.name:
            return self.name
        return f"{self.replacement.__module__}.{self.replacement.__qualname__}"
