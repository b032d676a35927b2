"""A row of the vocabulary: what one operator of a ProgramDesc is called in phi, and in PIR.

    row("leaky_relu", {"x": "X"}, attributes={"negative_slope": attribute("alpha", 0.02)})
    row("top_k_v2", {"x": "X", "k": ("K", full("k", "int32", 1))}, {"out": "Out"}, phi="topk")

Inputs are in PIR's order, phi's operand -> where a ProgramDesc operator has it:

    "X"                                 slot X
    list_slot("X")                      the list of variables in slot X
    full_int_array("dim", [0])          attribute dim, which becomes a ``full_int_array``
    full("p", "float32")                attribute p, which becomes a ``full`` of that dtype
    ("Axis", full("axis", "int32", 0))  the first of these that the operator has

Outputs are phi's result -> slot. Attributes are phi's name -> the default that Paddle takes where
a program lacks the attribute, `REQUIRED` where there must be one:

    "axis": -1                          both have that name
    "keepdim": attribute("keep_dim", False)
    "dtype": dtype("out_dtype", "float32")      a number of ``VarType.Type`` that becomes a name
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from paddle_ipu.frontend.legacy_operator import DTYPES

Default: TypeAlias = bool | int | float | str | Sequence[float] | None
"""The value of an attribute; None where the program must have it."""

REQUIRED = None

FullDtype = Literal["bool", "int32", "int64", "float32", "float64"]


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output slot of a ProgramDesc operator."""

    name: str
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a ProgramDesc operator; `is_dtype` marks a number of ``VarType.Type``."""

    name: str
    default: Default = REQUIRED
    is_dtype: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """An attribute that is an operand in PIR: a ``full_int_array`` where `dtype` is None."""

    attribute: Attribute
    dtype: FullDtype | None


Source: TypeAlias = str | Slot | Constant
Inputs: TypeAlias = Mapping[str, Source | tuple[Source, ...]]
Outputs: TypeAlias = Mapping[str, str | Slot]
Attributes: TypeAlias = Mapping[str, Default | Attribute]


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
    fixed: Mapping[str, Default] = field(default_factory=dict)
    is_backward: bool = False


TABLE: dict[str, Row] = {}
"""ProgramDesc operator -> its row. Backward operators have none; see `find`."""

_OUT: Outputs = {"out": "Out"}


def row(
    legacy: str,
    inputs: Inputs,
    outputs: Outputs = _OUT,
    attributes: Attributes | None = None,
    *,
    fixed: Mapping[str, Default] | None = None,
    phi: str = "",
) -> None:
    """Adds a row; a second one of the same name raises.

    Args:
        legacy: the name in a ProgramDesc.
        inputs: phi's operands in PIR's order.
        outputs: phi's results in PIR's order.
        attributes: those that PIR's operator has.
        fixed: attributes that must have this value, as PIR's operator has no such attribute.
        phi: phi's name, where it is another.
    """
    if legacy in TABLE:
        raise ValueError(f"the vocabulary has {legacy} twice")
    TABLE[legacy] = Row(
        phi or legacy,
        tuple(
            Operand(name, tuple(_source(each) for each in _as_tuple(source)))
            for name, source in inputs.items()
        ),
        tuple(_result(name, slot) for name, slot in outputs.items()),
        {
            name: each if isinstance(each, Attribute) else Attribute(name, each)
            for name, each in (attributes or {}).items()
        },
        fixed or {},
    )


def same_names(*names: str) -> dict[str, str]:
    """Operands or results whose slots have phi's names, as in operators since Paddle 2.5."""
    return {name: name for name in names}


def list_slot(name: str) -> Slot:
    """A slot with a list of variables that is one operand or result."""
    return Slot(name, is_list=True)


def full(name: str, dtype: FullDtype, default: Default = REQUIRED) -> Constant:
    """An attribute that becomes an operand: the result of a ``full``.

    Args:
        name: the attribute in a ProgramDesc.
        dtype: of the ``full``.
        default: if the ProgramDesc omits it; by default it may not.
    """
    return Constant(Attribute(name, default), dtype)


def full_int_array(name: str, default: Default = REQUIRED) -> Constant:
    """An attribute that becomes an operand: the result of a ``full_int_array``."""
    return Constant(Attribute(name, default), None)


def attribute(name: str, default: Default = REQUIRED) -> Attribute:
    """An attribute that a ProgramDesc calls `name`, and PIR otherwise."""
    return Attribute(name, default)


def dtype(name: str, default: str | None = REQUIRED) -> Attribute:
    """An attribute with the number of a dtype, which is its name in the dialect."""
    return Attribute(name, None if default is None else _NUMBERS[default], is_dtype=True)


_NUMBERS = {"undefined": -1, **{name: number for number, name in DTYPES.items()}}


def _as_tuple(source: Source | tuple[Source, ...]) -> tuple[Source, ...]:
    return source if isinstance(source, tuple) else (source,)


def _source(source: Source) -> Slot | Constant:
    return Slot(source) if isinstance(source, str) else source


def _result(name: str, slot: str | Slot) -> Result:
    return Result(name, slot) if isinstance(slot, str) else Result(name, slot.name, slot.is_list)
