"""An operator of a ProgramDesc: its slots and attributes as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.annotations import ANNOTATIONS
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.frontend.program_types import AttributeDesc, OpDesc, Scalar

EMPTY = "@EMPTY@"
"""How a ProgramDesc names a result nobody wants."""

DTYPES: Mapping[int, str] = {
    0: "bool",
    1: "int16",
    2: "int32",
    3: "int64",
    4: "float16",
    5: "float32",
    6: "float64",
    20: "uint8",
    21: "int8",
    22: "bfloat16",
    23: "complex64",
    24: "complex128",
}
"""``VarType.Type`` of framework.proto -> Paddle's dtype name."""


@dataclass(frozen=True, slots=True)
class Variables:
    """Names of variables that stand where an attribute may: one, or a list."""

    names: tuple[str, ...]
    is_list: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator.

    Attributes:
        type: its name in a ProgramDesc, for instance ``matmul_v2``.
        inputs: slot -> variable names.
        outputs: slot -> variable names.
        attributes: name -> number, string, list of them, or `Variables`.
        callstack: the user's Python stack.
    """

    type: str
    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, Sequence[str]]
    attributes: Mapping[str, Any]
    callstack: Sequence[str] = field(default=(), compare=False)

    @property
    def place(self) -> str:
        """`` at file:line`` of the user's call, "" where Paddle recorded none."""
        found = dialect.source_line(self.callstack)
        return f" at {found}" if found else ""

    @property
    def scope(self) -> str:
        """Paddle's scope that it was made in, with layers as ``dialect.layers`` has them."""
        return str(self.attributes.get(_SCOPE, ""))

    def input(self, slot: str) -> str | None:
        """The one variable of an input slot, None where there is none."""
        names = self.inputs.get(slot, ())
        return names[0] if names and names[0] != EMPTY else None

    def output(self, slot: str) -> str | None:
        """The one variable of an output slot, None where there is none."""
        names = self.outputs.get(slot, ())
        return names[0] if names and names[0] != EMPTY else None

    def changed(
        self,
        type: str | None = None,
        inputs: Mapping[str, Sequence[str]] | None = None,
        outputs: Mapping[str, Sequence[str]] | None = None,
        attributes: Mapping[str, Any] | None = None,
        without: Sequence[str] = (),
    ) -> Operator:
        """The same operator in another form.

        Args:
            type: its new name.
            inputs: its new input slots.
            outputs: its new output slots.
            attributes: added to its own.
            without: its own attributes that the new form does not have.
        """
        kept = {name: value for name, value in self.attributes.items() if name not in without}
        return replace(
            self,
            type=self.type if type is None else type,
            inputs=self.inputs if inputs is None else inputs,
            outputs=self.outputs if outputs is None else outputs,
            attributes={**kept, **(attributes or {})},
        )

    def beside(
        self, type: str, source: str, result: str, attributes: Mapping[str, Any]
    ) -> Operator:
        """An operator from X to Out with this one's common attributes and call stack.

        Args:
            type: its type.
            source: the variable of X.
            result: the variable of Out.
            attributes: attributes of its own.
        """
        kept = (*COMMON, _SCOPE)
        common = {name: self.attributes[name] for name in kept if name in self.attributes}
        return Operator(
            type, {"X": [source]}, {"Out": [result]}, {**common, **attributes}, self.callstack
        )


_SCOPE = "op_namescope"

COMMON = ("op_role", *ANNOTATIONS)
"""Attributes that any operator may have and that mean something on an IPU."""


def parse(desc: OpDesc) -> Operator:
    """The operator that an ``OpDesc`` message describes.

    Raises:
        InvalidProgramError: an attribute of a kind that framework.proto does not know.
    """
    attributes = {attr.name: _value(desc.type, attr) for attr in desc.attrs}
    return Operator(
        type=desc.type,
        inputs={slot.parameter: tuple(slot.arguments) for slot in desc.inputs},
        outputs={slot.parameter: tuple(slot.arguments) for slot in desc.outputs},
        attributes=attributes,
        callstack=tuple(attributes.pop("op_callstack", ())),
    )


@dataclass(frozen=True, slots=True)
class Block:
    """The number of a nested block, as an attribute holds it."""

    index: int


FIELDS: Mapping[int, str] = {
    0: "i",
    1: "f",
    2: "s",
    3: "ints",
    4: "floats",
    5: "strings",
    6: "b",
    7: "bools",
    9: "l",
    11: "longs",
    12: "float64s",
    15: "float64",
}
"""``AttrType`` of framework.proto -> the field that holds the value."""


def plain_value(attr: AttributeDesc) -> Any:
    """An attribute's number, string or list of them; its kind is one of `FIELDS`."""
    value = getattr(attr, FIELDS[attr.type])
    return value if isinstance(value, (bool, int, float, str)) else list(value)


def _value(op_type: str, attr: AttributeDesc) -> Any:
    kind = attr.type
    if kind in FIELDS:
        return plain_value(attr)
    if kind == 8:
        return Block(attr.block_idx)
    if kind == 10:
        return [Block(index) for index in attr.blocks_idx]
    if kind == 13:
        return Variables((attr.var_name,), is_list=False)
    if kind == 14:
        return Variables(tuple(attr.vars_name), is_list=True)
    if kind == 16:
        return _scalar(attr.scalar)
    if kind == 17:
        return [_scalar(scalar) for scalar in attr.scalars]
    raise InvalidProgramError(
        f"operator {op_type}: attribute {attr.name!r} is of kind {kind}, which ProgramDesc does "
        "not define. The program was written by a newer Paddle, or is damaged."
    )


def _scalar(scalar: Scalar) -> float:
    return {1: scalar.b, 2: scalar.i, 3: scalar.r}.get(scalar.type, scalar.r)
