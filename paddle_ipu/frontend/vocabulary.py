"""The one table of renames: an operator of a ProgramDesc -> the phi operator PIR has for it.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend.legacy_operator import DTYPES, Operator


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
    """

    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Result, ...]
    attributes: Mapping[str, Attribute]
    fixed: Mapping[str, Any] = field(default_factory=dict)


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


def attribute_value(operator: Operator, name: str, attribute: Attribute) -> Any:
    """The value an attribute has in the dialect.

    Raises:
        InvalidProgramError: the operator lacks it, or its dtype is none of framework.proto's.
    """
    value = operator.attributes.get(attribute.name, attribute.default)
    if value is None:
        raise InvalidProgramError(
            f"operator {operator.type} has no attribute {attribute.name!r}, which it needs for "
            f"{name!r}. The program is damaged."
        )
    if attribute.kind != "dtype":
        return value
    if value not in DTYPES:
        raise InvalidProgramError(
            f"operator {operator.type}: attribute {attribute.name!r} is dtype number {value}, "
            "which ProgramDesc does not define for tensors."
        )
    return DTYPES[value]


def check_attributes(operator: Operator, found: Row) -> None:
    """Refuses attributes whose value changes what the operator does and has no name in phi."""
    for name, only in found.fixed.items():
        value = operator.attributes.get(name, only)
        if value != only:
            raise NotSupported(
                f"operator {operator.type}: {name} = {value!r} is not supported; only {only!r} is."
            )


def check_versions(desc: Any) -> None:
    """Refuses operators of a version that the table does not know."""


def find(operator: Operator) -> Row | None:
    """The row of an operator, None where the table has none.

    A backward operator's is made from its forward operator's: it is called ``<phi>_grad``, and
    slot ``Out@GRAD`` of a forward operator whose result ``out`` is in ``Out`` is ``out_grad``.
    """
    legacy = operator.type
    if legacy in TABLE:
        return TABLE[legacy]
    forward = TABLE.get(legacy.removesuffix("_grad"))
    if not legacy.endswith("_grad") or forward is None:
        return None
    return _backward(operator, forward)


def _backward(operator: Operator, forward: Row) -> Row:
    names = {
        source.name: operand.name
        for operand in forward.inputs
        for source in operand.sources
        if isinstance(source, Slot)
    }
    names.update((result.slot, result.name) for result in forward.outputs)

    def rename(slot: str) -> str:
        base, mark, rest = slot.partition("@GRAD")
        return names.get(base, base.lower()) + ("_grad" if mark else "") + rest

    def lists(slots: Mapping[str, Sequence[str]]) -> dict[str, bool]:
        return {slot: len(variables) > 1 for slot, variables in slots.items() if variables}

    return Row(
        f"{forward.op}_grad",
        tuple(
            Operand(rename(slot), (Slot(slot, is_list),))
            for slot, is_list in lists(operator.inputs).items()
        ),
        tuple(
            Result(rename(slot), slot, is_list) for slot, is_list in lists(operator.outputs).items()
        ),
        {},
    )


# Activations.
for _name in ("relu", "tanh", "sigmoid", "sqrt", "square", "exp", "log", "abs"):
    row(_name, _name, "x=X")

# Arithmetic.
for _name, _phi in (
    ("add", "add"),
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("div", "divide"),
    ("max", "maximum"),
):
    row(f"elementwise_{_name}", _phi, "x=X y=Y")
row(
    "scale",
    "scale",
    "x=X scale=ScaleTensor|@scale:float32?1.0",
    attributes="bias?0.0 bias_after_scale?true",
)
row("sum", "add_n", "inputs=X*")
row("matmul_v2", "matmul", "x=X y=Y", "out=Out", "transpose_x=trans_x?0 transpose_y=trans_y?0")
row("mul", "matmul", "x=X y=Y")
row("reduce_mean", "mean", "x=X axis=@dim?[0]", "out=Out", "keepdim=keep_dim?false")
row("mean", "mean_all", "x=X")
row("reshape2", "reshape", "x=X shape=ShapeTensor*|Shape|@shape")
row("fill_constant", "full", "", "out=Out", "dtype:dtype?5 shape value")
row(
    "softmax_with_cross_entropy",
    "cross_entropy_with_softmax",
    "input=Logits label=Label",
    "softmax=Softmax loss=Loss",
    "axis?-1 ignore_index?-100 numeric_stable_mode?true soft_label?false use_softmax?true",
)

# Optimizers.
row(
    "sgd",
    "sgd_",
    "param=Param learning_rate=LearningRate grad=Grad master_param=MasterParam",
    "param_out=ParamOut master_param_out=MasterParamOut",
    "multi_precision?false",
)
