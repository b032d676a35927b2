"""``Program.clone`` for PIR programs as ProgramDesc programs have it, ``for_test`` included.

A copy for tests has dropout and normalisation in test mode and none of what training added:
gradients, what is computed from them, the optimizer with its states, and the constants that only
these read. PIR records no roles, so the structure decides: an operator belongs to training when it
is a gradient or an update, or reads the result of such an operator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paddle_ipu.dialect.paddle_objects import Block, Operation, Program
from paddle_ipu.dialect.value_names import name_all

_CONSTANTS = frozenset(
    {"full", "full_", "full_like", "full_int_array", "ones_like", "zeros_like", "assign_value"}
)
_SCHEDULER_ATTRIBUTES = ("lr_scheduler", "lr_var", "lr_name")


def program_clone(clone: Callable[..., Any]) -> Callable[..., Any]:
    """Paddle's ``Program.clone`` with the old argument beside PIR's own."""

    @functools.wraps(clone)
    def clone_program(self: Program, *args: Any, for_test: bool = False) -> Program:
        copy: Program
        if args and isinstance(args[0], bool):
            for_test, args = args[0], args[1:]
        if args and not for_test:
            copy = clone(self, *args)
            return copy
        # Scripts use a name that one copy gave with another copy: name every value before.
        name_all(self)
        copy = clone(self, *args)
        if for_test:
            _prune(copy)
            copy.set_is_test_attr()
        return copy

    return clone_program


def _prune(program: Program) -> None:
    block = program.global_block()
    training = _training_operators(block)
    for operator in reversed(block.ops):
        if operator.id() in training:
            block.remove_op(operator)
    for attribute in _SCHEDULER_ATTRIBUTES:
        if training and hasattr(program, attribute):
            delattr(program, attribute)


def _training_operators(block: Block) -> set[int]:
    """Ids of the operators that only training needs."""
    removed: set[int] = set()
    constant: set[int] = set()
    for operator in block.ops:
        sources = [
            value.get_defining_op().id()
            for value in operator.operands_source()
            if value.initialized()
        ]
        kind = _kind(operator)
        if _is_training_kind(kind) or any(source in removed for source in sources):
            removed.add(operator.id())
        elif kind in _CONSTANTS or (sources and all(source in constant for source in sources)):
            constant.add(operator.id())
    for operator in reversed(block.ops):
        if operator.id() in constant or _is_state(operator):
            users = [
                user.id()
                for value in operator.results()
                if value.initialized()
                for user in value.all_used_ops()
            ]
            if users and all(user in removed for user in users):
                removed.add(operator.id())
    return removed


def _kind(operator: Operation) -> str:
    return operator.name().rpartition(".")[2]


def _is_training_kind(kind: str) -> bool:
    # Passes import ONNX, which waits for the first use.
    from paddle_ipu.passes.support.update_operators import OPTIMIZER_OPS

    return kind in OPTIMIZER_OPS or kind.endswith(("_grad", "_grad_"))


def _is_state(operator: Operation) -> bool:
    """A variable of the scope that no layer made: an optimizer's state or the learning rate."""
    attributes = operator.attrs()
    if _kind(operator) == "data":
        return bool(attributes.get("persistable", [False])[0])
    return _kind(operator) == "parameter" and not attributes.get("is_parameter", [False])[0]
