"""Methods of ProgramDesc blocks for ``paddle.pir.Block``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paddle_ipu.dialect.value_names import name_of


def named_values(block: Any) -> Iterator[tuple[str, Any]]:
    """Every (name, value) that the block's own operators make; who had no name is given one."""
    for operator in block.ops:
        for value in operator.results():
            # A list of values has no name of its own, its members have.
            if value.initialized() and value.type().as_vec_type() is None:
                yield name_of(value), value


def _vars(self: Any) -> dict[str, Any]:
    """Name -> variable."""
    return dict(named_values(self))


block_vars = property(_vars)


def block_has_var(self: Any, name: str) -> bool:
    """Whether the block has a variable of that name."""
    return any(found == name for found, _ in named_values(self))


def block_var(self: Any, name: str) -> Any:
    """The variable of a name.

    Raises:
        TypeError: `name` is no string.
        ValueError: there is none.
    """
    if not isinstance(name, str):
        raise TypeError(f"var(name): expected a str, got {type(name).__name__}.")
    for found, value in named_values(self):
        if found == name:
            return value
    raise ValueError(
        f"var {name!r} is not in this block. Feeds and parameters have the names they were given; "
        "ask any other variable for its name, `x.name`, for PIR names it otherwise than 2.x did."
    )


def block_remove_op(self: Any, index: int, sync: bool = True) -> None:
    """Removes the operator at a position; nothing may read what it makes."""
    self.remove_op(self.ops[index])
