"""Methods of ProgramDesc blocks for ``paddle.pir.Block``."""

from __future__ import annotations

from collections.abc import Iterator

from paddle_ipu.dialect.paddle_objects import Block, Value
from paddle_ipu.dialect.value_names import is_variable, name_of


def _named_values(block: Block) -> Iterator[tuple[str, Value]]:
    """Every (name, value) that the block's own operators make; values without a name get one."""
    for operator in block.ops:
        for value in operator.results():
            if is_variable(value):
                yield name_of(value), value


block_vars = property(lambda self: dict(_named_values(self)))


def block_has_var(self: Block, name: str) -> bool:
    """Whether the block has a variable of that name."""
    return any(known == name for known, _ in _named_values(self))


def block_var(self: Block, name: str) -> Value:
    """The variable of a name.

    Raises:
        TypeError: `name` is no string.
        ValueError: there is none.
    """
    if not isinstance(name, str):
        raise TypeError(f"var(name): expected a str, got {type(name).__name__}.")
    for known, value in _named_values(self):
        if known == name:
            return value
    raise ValueError(
        f"var {name!r} is not in this block. Feeds and parameters have the names they were given; "
        "ask any other variable for its name, `x.name`, for PIR names it otherwise than 2.x did."
    )


def block_remove_op(self: Block, index: int, sync: bool = True) -> None:
    """Removes the operator at a position; nothing may read what it makes."""
    self.remove_op(self.ops[index])
