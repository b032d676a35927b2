"""Members of ProgramDesc operators for ``paddle.pir.Operation``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from paddle_ipu.dialect.annotations import ANNOTATIONS, FLOATS_AS_TEXT
from paddle_ipu.dialect.paddle_objects import Operation, Value
from paddle_ipu.dialect.value_names import NAME_PREFIX, is_variable, name_of
from paddle_ipu.legacy.legacy_names import (
    PADDLE,
    is_attribute_constant,
    operand_of,
    result_of,
    type_of,
)
from paddle_ipu.legacy.pir_block import block_has_var, block_var

_PADDLES_OWN = frozenset({"op_callstack", "stop_gradient", "struct_name"})
_PRIVATE_PREFIX = "paddle_ipu."
_NO_SCOPE = {"op_namescope": "/"}  # PIR keeps no name scopes


operation_type = property(type_of)


def operation_all_attrs(self: Operation) -> dict[str, Any]:
    """Every attribute, by name."""
    return {
        name: float(value) if name in FLOATS_AS_TEXT else value
        for name, value in self.attrs().items()
        if not name.startswith(_PRIVATE_PREFIX)
    }


operation_attr_names = property(lambda self: list(operation_all_attrs(self)))


def operation_attr(self: Operation, name: str) -> Any:
    """An attribute's value.

    Raises:
        ValueError: the operator has no such attribute.
    """
    attributes = _NO_SCOPE | operation_all_attrs(self)
    if name not in attributes:
        raise ValueError(
            f"operator {type_of(self)} has no attribute {name!r}; it has {_listed(self)}."
        )
    return attributes[name]


def operation_set_attr(self: Operation, name: str, val: Any) -> None:
    """Sets an attribute that the operator has, or one that the IPU reads from any operator.

    Raises:
        ValueError: another name, or an attribute that PIR does not let Python write.
        TypeError: a value of another type.
    """
    if name in ANNOTATIONS:
        kind = ANNOTATIONS[name]
    elif self.has_attr(name) and name not in _PADDLES_OWN:
        kind = type(self.attrs()[name])
    else:
        raise ValueError(
            f"operator {type_of(self)} has no attribute {name!r}, setting it would change nothing: "
            f"it has {_listed(self)}, and takes {', '.join(ANNOTATIONS)} for the IPU. PIR keeps "
            "some of 2.x's attributes as operands; build the operator with the value instead."
        )
    if not _fits(val, kind):
        raise TypeError(
            f"operator {type_of(self)}, attribute {name!r}: expected {kind.__name__}, got "
            f"{type(val).__name__} ({val!r})."
        )
    if kind is bool:
        self.set_bool_attr(name, val)
    elif kind is int:
        self.set_int_attr(name, int(val))
    elif kind is str:
        self.set_str_attr(name, val)
    elif name in FLOATS_AS_TEXT:
        # Python cannot write a float attribute.
        self.set_str_attr(name, repr(float(val)))
    elif kind is list and all(isinstance(item, int) for item in val):
        self.set_int_array_attr(name, val)
    elif kind is list and all(isinstance(item, str) for item in val):
        self.set_str_array_attr(name, val)
    else:
        raise ValueError(
            f"operator {type_of(self)}, attribute {name!r}: PIR does not let Python write an "
            f"attribute of type {kind.__name__}. Build the operator with the value instead."
        )


def _fits(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is list:
        return isinstance(value, (list, tuple))
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _listed(operator: Operation) -> str:
    names = [name for name in operation_all_attrs(operator) if name not in _PADDLES_OWN]
    return ", ".join(map(repr, sorted(names))) or "none"


# -- operands and results ----------------------------------------------------------------------


def _members(value: Value) -> list[Value]:
    """The value, or the members of a list of values."""
    if not value.initialized():
        return []
    if value.type().as_vec_type() is None:
        return [value]
    maker = value.get_defining_op()
    if maker.name() == "builtin.combine":
        return list(maker.operands_source())
    users = [user for user in value.all_used_ops() if user.name() == "builtin.split"]
    return [part for user in users for part in user.results()]


def _arg_names(values: Sequence[Value]) -> list[str]:
    return [name_of(member) for value in values for member in _members(value)]


operation_input_arg_names = property(lambda self: _arg_names(self.operands_source()))
operation_output_arg_names = property(lambda self: _arg_names(self.results()))


def _input_names(self: Operation) -> list[str]:
    return list(self.get_input_names()) if _is_named(self) else []


def _output_names(self: Operation) -> list[str]:
    return list(self.get_output_names()) if _is_named(self) else []


def _is_named(operator: Operation) -> bool:
    """Whether PIR has names for operands and results; asking it otherwise ends the process."""
    name: str = operator.name()
    return name.startswith(f"{PADDLE}.") and not list(operator.blocks())


operation_input_names = property(_input_names)
operation_output_names = property(_output_names)


def _names_of(
    self: Operation, names: list[str], values: Sequence[Value], name: str, what: str
) -> list[str]:
    if name not in names:
        raise ValueError(
            f"operator {type_of(self)} has no {what} {name!r}; it has "
            f"{', '.join(map(repr, names)) or 'none'}."
        )
    return _arg_names([values[names.index(name)]])


def operation_input(self: Operation, name: str) -> list[str]:
    """Names of the variables of an operand.

    Raises:
        ValueError: the operator has no such operand.
    """
    names = _input_names(self)
    known = name if name in names else operand_of(self, name)
    return _names_of(self, names, self.operands_source(), known, "input")


def operation_output(self: Operation, name: str) -> list[str]:
    """Names of the variables of a result.

    Raises:
        ValueError: the operator has no such result.
    """
    names = _output_names(self)
    known = name if name in names else result_of(self, name)
    return _names_of(self, names, self.results(), known, "output")


def operation_rename_input(self: Operation, old_name: str, new_name: str) -> None:
    """Makes it read another variable wherever it reads the old one; does nothing where it does not.

    Raises:
        ValueError: the block has no variable of the new name.
    """
    if old_name == new_name:
        return
    for index, value in enumerate(self.operands_source()):
        if is_variable(value) and name_of(value) == old_name:
            self.operand(index).set_source(block_var(self.get_parent_block(), new_name))


def operation_rename_output(self: Operation, old_name: str, new_name: str) -> None:
    """Gives a variable that it makes another name; does nothing where it makes none of that name.

    Raises:
        ValueError: another variable has the new name.
    """
    if old_name == new_name or old_name not in _arg_names(self.results()):
        return
    if block_has_var(self.get_parent_block(), new_name):
        raise ValueError(
            f"operator {type_of(self)}: {old_name!r} cannot be called {new_name!r}, the name of "
            "another variable: a PIR program makes every variable once. Let what reads that one "
            "read this, with _rename_input."
        )
    for index, value in enumerate(self.results()):
        if is_variable(value) and name_of(value) == old_name:
            self.set_str_attr(f"{NAME_PREFIX}{index}", new_name)


operation_block = property(lambda self: self.get_parent_block())


def _idx(self: Operation) -> int:
    ids = [operator.id() for operator in self.get_parent_block().ops]
    return ids.index(self.id())


operation_idx = property(_idx)


def operation_to_string(self: Operation, throw_on_error: bool = False) -> str:
    """The operator as text."""
    return str(self)


class OperatorView:
    """``op.desc``, as far as scripts use it.

    Some attributes of 2.x are operators in PIR. :meth:`has_attr` hides their placement, so that a
    script that reads the IPU of every operator sees only the operators that it built.
    """

    def __init__(self, operator: Operation) -> None:
        self._operator = operator

    def type(self) -> str:
        """The operator's type in a ProgramDesc program."""
        return type_of(self._operator)

    def has_attr(self, name: str) -> bool:
        """Whether the operator has an attribute."""
        if name in ANNOTATIONS and is_attribute_constant(self._operator):
            return False
        return bool(self._operator.has_attr(name))

    def attr(self, name: str) -> Any:
        """An attribute's value; ValueError where there is none."""
        return operation_attr(self._operator, name)

    def attr_names(self) -> list[str]:
        """Names of all attributes."""
        return list(operation_all_attrs(self._operator))

    def _set_attr(self, name: str, value: Any) -> None:
        operation_set_attr(self._operator, name, value)

    def input(self, name: str) -> list[str]:
        """Names of the variables of an operand."""
        return operation_input(self._operator, name)

    def output(self, name: str) -> list[str]:
        """Names of the variables of a result."""
        return operation_output(self._operator, name)

    def input_names(self) -> list[str]:
        """Names of the operands."""
        return _input_names(self._operator)

    def output_names(self) -> list[str]:
        """Names of the results."""
        return _output_names(self._operator)

    def input_arg_names(self) -> list[str]:
        """Names of the variables the operator reads."""
        return _arg_names(self._operator.operands_source())

    def output_arg_names(self) -> list[str]:
        """Names of the variables the operator makes."""
        return _arg_names(self._operator.results())

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"op.desc of a PIR operator has no attribute {name!r}: PIR has no OpDesc. Ask the "
            "operator itself, or build it with the function that makes it."
        )


operation_desc = property(OperatorView)
