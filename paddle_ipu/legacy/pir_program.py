"""Methods of ProgramDesc programs for ``paddle.pir.Program``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import paddle

from paddle_ipu.dialect.paddle_objects import Block, Program, Scope, Value
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.legacy.pir_value import value_set_value

_STRUCTURED = "StructuredToParameterName@@"


def program_all_parameters(self: Program) -> list[Value]:
    """The program's parameters, in the order of their creation, without a learning rate."""
    # Paddle puts each new parameter in front of the block, and takes a scheduler's learning rate
    # for one; that has none of a parameter's attributes.
    return [
        value
        for value in reversed(self.global_block().all_parameters())
        if {"is_parameter", "trainable"} & set(value.get_defining_op().attrs())
    ]


def program_block(self: Program, index: int) -> Block:
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


def program_current_block(self: Program) -> Block:
    """The block that operators are being added to; the global one outside of a guard."""
    block: Block = paddle.base.libpaddle.pir.get_current_insertion_point().block()
    return block if block.program == self else self.global_block()


# Blocks of control flow have no number.
program_current_block_idx = property(lambda self: 0)


def program_to_string(
    self: Program, throw_on_error: bool = False, with_details: bool = False
) -> str:
    """The program as text."""
    return str(self)


def program_set_state_dict(set_state_dict: Callable[..., Any]) -> Callable[..., None]:
    """``set_state_dict`` that takes what ``paddle.load`` gives, and the global scope where None."""

    @functools.wraps(set_state_dict)
    def set_all(
        self: Program,
        state_dict: dict[str, Any],
        scope: Scope | None = None,
        *args: object,
    ) -> None:
        if not isinstance(state_dict, dict):
            raise TypeError(
                f"Type of `state_dict` should be dict, but received {type(state_dict)}."
            )
        names = state_dict.get(_STRUCTURED, {})
        values = {name_of(value): value for value in _scope_values(self)}
        for key, array in state_dict.items():
            if key == _STRUCTURED:
                continue
            name = names.get(key, key)
            if name not in values:
                warnings.warn(
                    f"Skip loading for '{name}'. Because '{name}' not in the program.",
                    stacklevel=2,
                )
                continue
            try:
                value_set_value(values[name], array, scope)
            except (TypeError, ValueError) as error:
                warnings.warn(f"Skip loading for '{name}'. {error}", stacklevel=2)

    return set_all


def _scope_values(program: Program) -> list[Value]:
    """The values that are variables of the scope: parameters, states of optimizers, counters."""
    return [
        operator.result(0)
        for operator in program.global_block().ops
        if operator.name() == "builtin.parameter"
        or (operator.name() == "pd_op.data" and operator.result(0).persistable)
    ]
