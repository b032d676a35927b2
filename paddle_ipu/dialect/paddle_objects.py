"""The types of Paddle's C++ objects, as far as this package uses them: Protocols.

Those of PIR have what Paddle 3.0 to 3.3 have in common, the others what 2.6 has too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np


class DenseTensor(Protocol):
    """``paddle.base.core.DenseTensor``: memory of a variable or of a tensor."""

    def shape(self) -> list[int]: ...

    def set(self, array: np.ndarray[Any, Any], place: object) -> None:
        """Copies an array into it, which gives it shape and dtype."""

    def _is_initialized(self) -> bool:
        """Whether it has memory."""

    def _ptr(self) -> int:
        """The address of its memory."""

    def _share_data_with(self, other: Self) -> None:
        """Takes the memory of another tensor for its own."""


class ScopeVariable(Protocol):
    """A variable of a Scope."""

    def get_tensor(self) -> DenseTensor: ...


class Scope(Protocol):
    """``paddle.static.Scope``: the weights on the host, by name."""

    def var(self, name: str) -> ScopeVariable:
        """The variable of a name, which is created where there is none."""

    def find_var(self, name: str) -> ScopeVariable | None:
        """The variable of a name, or None."""


class VectorType(Protocol):
    """The type of a list of values."""

    def as_list(self) -> Sequence[Any]:
        """The types of its members."""


class Type(Protocol):
    """The type of a value."""

    def as_vec_type(self) -> VectorType | None:
        """Itself where the value is a list, else None."""


class Value(Protocol):
    """``paddle.pir.Value``: a result of an operator."""

    id: int
    """The same for all handles of one value, which differ in their hash."""
    name: str
    has_name: bool
    """Whether Paddle itself has a name for it."""
    shape: list[int]
    dtype: object
    persistable: bool
    stop_gradient: bool
    _names: Sequence[str]

    def initialized(self) -> bool:
        """False for an operand or a result that is left out."""

    def type(self) -> Type: ...

    def index(self) -> int:
        """Its number among the results of its operator."""

    def get_defining_op(self) -> Operation:
        """The operator that makes it."""

    def all_used_ops(self) -> list[Operation]:
        """The operators that read it."""

    def is_same(self, other: Value) -> bool:
        """Whether both are handles of one value."""

    def replace_all_uses_with(self, other: Value) -> None:
        """Makes all operators that read it read another value."""


class Operand(Protocol):
    """A place where an operator reads a value."""

    def set_source(self, value: Value) -> None:
        """Makes the operator read another value there."""


class Operation(Protocol):
    """``paddle.pir.Operation``: an operator of a program."""

    def name(self) -> str:
        """Its name with its dialect, ``pd_op.matmul``."""

    def id(self) -> int:
        """The same for all handles of one operator."""

    def attrs(self) -> dict[str, Any]: ...

    def has_attr(self, name: str) -> bool: ...

    def str_attr(self, name: str) -> str: ...

    def set_bool_attr(self, name: str, value: bool) -> None: ...

    def set_int_attr(self, name: str, value: int) -> None: ...

    def set_str_attr(self, name: str, value: str) -> None: ...

    def set_int_array_attr(self, name: str, value: Sequence[int]) -> None: ...

    def set_str_array_attr(self, name: str, value: Sequence[str]) -> None: ...

    def erase_attr(self, name: str) -> None: ...

    def operand(self, index: int) -> Operand:
        """An operand, to be changed."""

    def operand_source(self, index: int) -> Value:
        """What it reads as an operand."""

    def operands_source(self) -> list[Value]: ...

    def result(self, index: int) -> Value: ...

    def results(self) -> list[Value]: ...

    def num_results(self) -> int: ...

    def get_input_names(self) -> Sequence[str]:
        """The names of its operands; ends the process for operators that are not Paddle's."""

    def get_output_names(self) -> Sequence[str]:
        """The names of its results; ends the process for operators that are not Paddle's."""

    def blocks(self) -> Sequence[Block]:
        """The blocks of an operator of control flow."""

    def get_parent_block(self) -> Block:
        """The block it is in."""

    def move_before(self, other: Operation) -> None:
        """Moves it in front of another operator."""


class Block(Protocol):
    """``paddle.pir.Block``: operators in their order."""

    ops: list[Operation]
    program: Program

    def all_parameters(self) -> list[Value]:
        """The parameters, the newest first."""

    def empty(self) -> bool:
        """Whether it has no operators."""

    def back(self) -> Operation:
        """The last operator."""

    def remove_op(self, operator: Operation) -> None:
        """Removes an operator whose results nobody reads."""


class Program(Protocol):
    """``paddle.pir.Program``."""

    blocks: Sequence[Block]

    def global_block(self) -> Block:
        """The block of all operators that are in no control flow."""

    def set_is_test_attr(self) -> None:
        """Puts dropout and normalisation into test mode."""
