"""A row of the vocabulary: what one operator of a ProgramDesc is called in phi, and in PIR.

A row is written ``row(legacy, phi, inputs, outputs, attributes)``. Inputs stand in PIR's order:

    x=X             operand x is slot X
    x=X*            operand x is the list in slot X
    axis=A|B*|@dim  the first of these that is there: slot A, the list in slot B, attribute dim,
                    which becomes a ``full_int_array``
    p=@p:float32    attribute p becomes a ``full`` of that dtype

Attributes are ``phi=legacy``, one name where both agree. ``?`` gives the default, in JSON, that
Paddle takes where a program lacks the attribute; without one the program must have it.
``axis=axis:dtype?5`` is a number of ``VarType.Type`` that becomes a dtype's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Slot:
    """An input slot of a ProgramDesc operator."""

    name: str
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a ProgramDesc operator; `default` is None where there must be one."""

    name: str
    kind: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True)
class Constant:
    """An attribute that is an operand in PIR; `dtype` "ints" is a ``full_int_array``."""

    name: str
    dtype: str
    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a phi operator and where a ProgramDesc operator has it."""

    name: str
    sources: tuple[Slot | Constant, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a phi operator and the output slot of a ProgramDesc operator."""

    name: str
    slot: str
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What one ProgramDesc operator is in the dialect.

    Attributes:
        op: phi's name.
        inputs: operands in PIR's order.
        outputs: results in PIR's order.
        attributes: PIR's name -> where it comes from.
        fixed: attributes that have one value only here: any other is refused.
        is_backward: made by `find`; attributes and what forward left out do not count.
    """

    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Result, ...]
    attributes: Mapping[str, Attribute]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    is_backward: bool = False


TABLE: dict[str, Row] = {}
"""ProgramDesc operator -> its row. Backward operators have none; see `find`."""


def row(
    legacy: str,
    op: str,
    inputs: str,
    outputs: str = "out=Out",
    attributes: str = "",
    fixed: Mapping[str, Any] | None = None,
) -> None:
    """Adds a row; a second one of the same name raises."""
    if legacy in TABLE:
        raise ValueError(f"the vocabulary has {legacy} twice")
    TABLE[legacy] = Row(
        op,
        tuple(_operand(text) for text in inputs.split()),
        tuple(_result(text) for text in outputs.split()),
        {re.split("[=:?]", text)[0]: _attribute(text) for text in attributes.split()},
        fixed or {},
    )


def _operand(text: str) -> Operand:
    name, _, sources = text.partition("=")
    return Operand(name, tuple(_source(source) for source in sources.split("|")))


def _source(text: str) -> Slot | Constant:
    if text.startswith("@"):
        attribute = _attribute(text[1:])
        return Constant(attribute.name, attribute.kind or "ints", attribute)
    return Slot(text.removesuffix("*"), text.endswith("*"))


def _result(text: str) -> Result:
    name, _, slot = text.partition("=")
    return Result(name, slot.removesuffix("*"), slot.endswith("*"))


def _attribute(text: str) -> Attribute:
    text, _, default = text.partition("?")
    name, _, kind = text.rpartition("=")[2].partition(":")
    return Attribute(name, kind, json.loads(default) if default else None)
