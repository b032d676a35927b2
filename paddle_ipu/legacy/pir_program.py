"""Methods of ProgramDesc programs for ``paddle.pir.Program``."""

from __future__ import annotations

from typing import Any

import paddle


def program_all_parameters(self: Any) -> list[Any]:
    """The program's parameters, in the order of their creation, without a learning rate."""
    # Paddle puts each new parameter in front of the block, and takes a scheduler's learning rate
    # for one; that has none of a parameter's attributes.
    return [
        value
        for value in reversed(self.global_block().all_parameters())
        if {"is_parameter", "trainable"} & set(value.get_defining_op().attrs())
    ]


def program_block(self: Any, index: int) -> Any:
    """The block of a number.

    Raises:
        ValueError: there is no block of that number.
    """
    blocks = self.blocks
    if not 0 <= index < len(blocks):
        raise ValueError(
            f"block({index}): a PIR program numbers {len(blocks)} block(s), from 0; blocks of "
            "control flow belong to their operator, op.blocks()."
        )
    return blocks[index]


def program_current_block(self: Any) -> Any:
    """The block that operators are being added to; the global one outside of a guard."""
    block = paddle.base.libpaddle.pir.get_current_insertion_point().block()
    return block if block.program == self else self.global_block()


def program_to_string(self: Any, throw_on_error: bool = False, with_details: bool = False) -> str:
    """The program as text."""
    return str(self)
