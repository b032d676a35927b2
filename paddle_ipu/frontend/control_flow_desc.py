"""Control flow of a ProgramDesc: blocks that write variables, read as nodes that give results.

``cond`` is written as two conditional blocks and selections between what they wrote; they become
one ``if``. A block writes variables of the blocks around it: those are the node's results.

    conditional_block(p) {a = ..}                          o = if(p) {yield a'} {yield b'}
    np = logical_not(p);  conditional_block(np) {b = ..}
    m = cast(p);          o = select_input(m, [b, a])
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import control_flow
from paddle_ipu.frontend.control_flow import Region
from paddle_ipu.frontend.legacy_operator import EMPTY, Block, Operator
from paddle_ipu.frontend.program_types import ProgramDesc

IF, WHILE = "conditional_block", "while"
BACKWARD = frozenset({"conditional_block_grad", "while_grad", "select_output"})
"""Operators of backward, of which only operands and results are read."""

_SELECT = "select_input"
_THEN, _ELSE, _CHOICES = "sub_block", "else_block", "choices"
_DENSE = 7
ARRAY = 13
"""Kind of ``VarType`` of an array of tensors."""


class Reader(Protocol):
    """The reader of one block.

    Attributes:
        region: what it has made.
        newest: variable -> its newest version.
    """

    region: Region
    newest: dict[str, ir.Value]

    def inside(self, block: int) -> Reader:
        """A reader for a block in this one."""

    def read_all(self) -> None:
        """Reads the operators of the block."""

    def find(self, operator: Operator, name: str) -> ir.Value | None:
        """The newest version of a variable; InvalidProgramError where there is none."""

    def current(self, name: str) -> ir.Value | None:
        """The newest version of a variable, None where nothing has written it."""

    def write(self, name: str) -> ir.Value:
        """A new version of a variable."""

    def argument(self, name: str) -> ir.Value:
        """The version of a variable that a loop hands in."""

    def append_node(self, operator: Operator, node: ir.Node) -> None:
        """Appends a node made from an operator."""


def combined(
    desc: ProgramDesc, operators: Sequence[Operator], tensors: Collection[str]
) -> list[Operator]:
    """The operators of a block, where a cond is one ``conditional_block`` with two blocks.

    The results of control flow are all that its blocks write of the variables around them.

    Args:
        desc: the program.
        operators: of the block.
        tensors: :func:`tensors_of` the program.

    Raises:
        InvalidProgramError: a block, a condition or a selection that is none.
    """
    merged: set[int] = set()
    made: dict[int, Operator] = {}
    for at, operator in enumerate(operators):
        if at in merged or operator.type not in (IF, WHILE) or _is_backward(operator):
            continue
        written = _written_outside(desc, _block_of(operator), tensors)
        if operator.type == WHILE:
            made[at] = operator.changed(outputs={"Out": written})
            continue
        last, parts, otherwise, choices = _branches(operators, at)
        merged |= parts - {last}
        if otherwise is not None:
            written += _written_outside(desc, otherwise.index, tensors)
        inner = {name for _, then, other in choices for name in (then, other)}
        outputs = [name for name in dict.fromkeys(written) if name not in inner]
        made[last] = operator.changed(
            outputs={"Out": [result for result, _, _ in choices] + outputs},
            attributes={_ELSE: otherwise, _CHOICES: choices},
        )
    return [made.get(at, op) for at, op in enumerate(operators) if at not in merged]


def _block_of(operator: Operator) -> int:
    block = operator.attributes.get(_THEN)
    if not isinstance(block, Block):
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place} has no block: its attribute {_THEN} is "
            f"{block!r}."
        )
    return int(block.index)


def _condition(reader: Reader, operator: Operator, slot: str) -> tuple[str, ir.Value]:
    """The name and the newest version of the variable that control flow goes by."""
    name = operator.input(slot)
    found = None if name is None else reader.find(operator, name)
    if name is None or found is None:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place} has no condition: its input {slot} is empty."
        )
    return name, found


def tensors_of(desc: ProgramDesc) -> set[str]:
    """The names of a program's tensors and of its arrays of tensors."""
    return {
        variable.name
        for block in desc.blocks
        for variable in block.vars
        if variable.type.type in (_DENSE, ARRAY)
    }


def _written_outside(
    desc: ProgramDesc, block: int, tensors: Collection[str], around: Sequence[int] = ()
) -> list[str]:
    """The outer tensors that a block writes, in the order of the writes.

    Args:
        desc: the program.
        block: index of the block.
        tensors: the names of what counts.
        around: indices of the blocks that contain it.

    Raises:
        InvalidProgramError: the block contains itself, or its index does not exist.
    """
    if block in around or not 0 <= block < len(desc.blocks):
        raise InvalidProgramError(
            f"block {block} is inside itself."
            if block in around
            else f"an operator has block {block}, and there are {len(desc.blocks)}."
        )
    own = {variable.name for variable in desc.blocks[block].vars}
    found: dict[str, None] = {}
    for op in desc.blocks[block].ops:
        for attribute in op.attrs:
            if attribute.type == 8:
                inner = _written_outside(desc, attribute.block_idx, tensors, (*around, block))
                found.update(dict.fromkeys(inner))
        found.update((name, None) for slot in op.outputs for name in slot.arguments)
    return [name for name in found if name not in own and name in tensors]


def _branches(
    operators: Sequence[Operator], at: int
) -> tuple[int, set[int], Block | None, list[tuple[str, str, str]]]:
    """(index of the node, the operators it is made of, the false block, the selections)."""
    cond = operators[at].input("Cond")
    parts, otherwise, choices = {at}, None, []
    opposite = mask = None
    for number in range(at + 1, len(operators)):
        operator = operators[number]
        if operator.type == "logical_not" and operator.input("X") == cond and opposite is None:
            opposite = operator.output("Out")
        elif (
            operator.type == IF
            and opposite is not None
            and otherwise is None
            and operator.input("Cond") == opposite
        ):
            _block_of(operator)
            otherwise = operator.attributes[_THEN]
            parts.add(number)
        elif operator.type == "cast" and operator.input("X") == cond and otherwise is not None:
            mask = operator.output("Out")
        elif operator.type == _SELECT and mask is not None and operator.input("Mask") == mask:
            selected = operator.inputs.get("X", ())
            if len(selected) != 2:
                raise InvalidProgramError(
                    f"operator {_SELECT}{operator.place} selects from {len(selected)} variables, "
                    "expected 2."
                )
            other, then = selected
            choices.append((str(operator.output("Out")), then, other))
            parts.add(number)
        elif operator.type == IF and otherwise is None:
            break
    return max(parts), parts, otherwise, choices


def _is_backward(operator: Operator) -> bool:
    return bool(int(operator.attributes.get("op_role", 0)) & 1)


def add(reader: Reader, operator: Operator) -> bool:
    """Reads an operator where it is control flow; False where it is none."""
    if operator.type in BACKWARD:
        _add_backward(reader, operator)
    elif operator.type == IF:
        _add_if(reader, operator)
    elif operator.type == WHILE:
        _add_while(reader, operator)
    else:
        return False
    return True


def _add_backward(reader: Reader, operator: Operator) -> None:
    names = [name for slot in operator.inputs.values() for name in slot]
    known = [value for name in names if (value := reader.current(name)) is not None]
    written = [n for slot in operator.outputs.values() for n in slot if n != EMPTY]
    outputs = [reader.write(name) for name in written]
    reader.append_node(operator, control_flow.backward(operator.type, known, outputs))


def _add_if(reader: Reader, operator: Operator) -> None:
    if not operator.attributes.get("is_scalar_condition", True):
        raise NotSupported(
            f"operator {IF}{operator.place} runs its block where its inputs are not empty, which "
            "on an IPU is known beforehand. Use paddle.static.nn.cond."
        )
    _, cond = _condition(reader, operator, "Cond")
    then = _read_branch(reader, operator.attributes[_THEN])
    otherwise = _read_branch(reader, operator.attributes.get(_ELSE))
    choices: Sequence[tuple[str, str, str]] = operator.attributes.get(_CHOICES, ())
    pairs = [(first, second) for _, first, second in choices]
    pairs += [(name, name) for name in operator.outputs["Out"][len(choices) :]]
    for first, second in pairs:
        then.region.results.append(_result(then, operator, first))
        otherwise.region.results.append(_result(otherwise, operator, second))
    outputs = [reader.write(name) for name in operator.outputs["Out"]]
    node = control_flow.condition(cond, then.region, otherwise.region, outputs)
    for (_, first, second), output in zip(choices, outputs, strict=False):
        # Backward reads what each branch wrote.
        reader.newest[first] = reader.newest[second] = output
    reader.append_node(operator, node)


class _Empty:
    """A branch without a block: what it gives are the values before it."""

    def __init__(self, around: Reader) -> None:
        self.region = Region()
        self._around = around

    def current(self, name: str) -> ir.Value | None:
        found = self._around.current(name)
        return None if found is None else self.region.capture(found)


def _read_branch(reader: Reader, block: Block | None) -> Reader | _Empty:
    if block is None:
        return _Empty(reader)
    inside = reader.inside(block.index)
    inside.read_all()
    return inside


def _result(branch: Reader | _Empty, operator: Operator, name: str) -> ir.Value:
    found = branch.current(name)
    if found is None:
        raise NotSupported(
            f"operator {operator.type}{operator.place}: only one branch writes {name!r}, which "
            "has no value before. Give it one before the condition, or write it in both branches."
        )
    return found


def _add_while(reader: Reader, operator: Operator) -> None:
    name_of_condition, cond = _condition(reader, operator, "Condition")
    names = [name for name in operator.outputs["Out"] if name != name_of_condition]
    carried: list[ir.Value] = []
    for name in names:
        value = reader.current(name)
        if value is None:
            raise NotSupported(
                f"operator {WHILE}{operator.place} writes {name!r}, which has no value before the "
                "loop. Give it one of the same shape and dtype."
            )
        carried.append(value)
    inside = reader.inside(operator.attributes[_THEN].index)
    for name in names:
        inside.region.arguments.append(inside.argument(name))
    inside.read_all()
    condition = inside.current(name_of_condition)
    if condition is None:
        raise InvalidProgramError(
            f"the block of operator {WHILE}{operator.place} does not see {name_of_condition!r}, "
            "which says whether it goes on."
        )
    inside.region.results.append(condition)
    inside.region.results.extend(inside.newest[name] for name in names)
    outputs = [reader.write(name) for name in names]
    reader.append_node(operator, control_flow.loop(cond, carried, inside.region, outputs))
    if name_of_condition in operator.outputs["Out"]:
        _write_false(reader, operator, name_of_condition)


def _write_false(reader: Reader, operator: Operator, name: str) -> None:
    """Writes the condition's value after the loop."""
    value = reader.write(name)
    attributes: Mapping[str, str | float | list[int]] = {
        "dtype": "bool",
        "shape": [max(dim, 1) for dim in dialect.dims_of(value)],
        "value": 0.0,
    }
    made = [dialect.make_attribute(key, item) for key, item in attributes.items()]
    node = ir.Node(dialect.DOMAIN, "full", [], made, outputs=[value], name=value.name)
    node.meta[dialect.INPUT_NAMES] = ()
    reader.append_node(operator, node)
