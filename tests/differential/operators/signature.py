"""What an operator takes: by the C++ headers in Paddle's wheel for PIR, by its OpProtos else."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paddle

_FUNCTION = re.compile(r"PADDLE_API .*? (\w+)\((.*)\);$")
_BETWEEN = re.compile(r", (?![^{]*\})(?![^<]*>)")
_WITHOUT_MEANING = frozenset(
    {
        *("op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr"),
        *("stop_gradient", "use_mkldnn", "mkldnn_data_type", "use_cudnn", "place"),
    }
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One operand or attribute.

    Attributes:
        name: as Paddle has it.
        type: the C++ type, or the kind of an OpProto's attribute in lower case; ``Tensor``,
            ``optional``, ``Tensors`` for operands.
        default: C++ text or Python value; None without.
    """

    name: str
    type: str
    default: Any = None

    @property
    def is_operand(self) -> bool:
        return self.type in ("Tensor", "optional", "Tensors")


Signature = tuple[Parameter, ...]


def pir() -> bool:
    """Whether programs are PIR's, not ProgramDescs."""
    return bool(paddle.framework.in_pir_mode())


@functools.cache
def _headers() -> Mapping[str, Signature]:
    folder = Path(paddle.__file__).parent / "include/paddle/phi/api/include"
    signatures: dict[str, Signature] = {}
    for name in ("api.h", "fused_api.h"):
        for line in (folder / name).read_text().splitlines():
            if match := _FUNCTION.match(line):
                # Overloads for `out=` come after the function itself.
                signatures.setdefault(match[1], tuple(_parameters(match[2])))
    return signatures


def _parameters(text: str) -> Iterator[Parameter]:
    for parameter in _BETWEEN.split(text):
        declaration, _, default = parameter.partition(" = ")
        kind, _, name = declaration.strip().rpartition(" ")
        if name == "predefined_out" or not name:
            continue
        kind = kind.removeprefix("const ").removesuffix("&")
        if "Tensor" in kind:
            kind = "Tensors" if "vector" in kind else "optional" if "optional" in kind else "Tensor"
        yield Parameter(name, kind, default or None)


def pir_signature(op: str) -> Signature | None:
    """The parameters of ``paddle._C_ops.<op>`` in order, None where no header has them."""
    return _headers().get(op)


@functools.cache
def legacy_signature(op: str) -> Signature:
    """The operands of an operator of a ProgramDesc, then its attributes, with defaults."""
    from paddle.base import core, framework

    proto = framework.OpProtoHolder.instance().get_op_proto(op)
    defaults = core.get_op_attrs_default_value(op.encode())
    kinds = proto.DESCRIPTOR.fields_by_name["attrs"].message_type.fields_by_name["type"].enum_type
    operands = tuple(
        Parameter(
            slot.name,
            "Tensors" if slot.duplicable else "optional" if slot.dispensable else "Tensor",
        )
        for slot in proto.inputs
    )
    attributes = tuple(
        Parameter(
            attribute.name,
            kinds.values_by_number[attribute.type].name.lower(),
            defaults.get(attribute.name),
        )
        for attribute in proto.attrs
        if attribute.name not in _WITHOUT_MEANING and not attribute.extra
    )
    return operands + attributes


def results_with_meaning(op: str) -> frozenset[str]:
    """The result slots of a ProgramDesc operator that are not for its gradient alone."""
    from paddle.base import framework

    proto = framework.OpProtoHolder.instance().get_op_proto(op)
    return frozenset(slot.name for slot in proto.outputs if not slot.intermediate)


def has_meaning(attribute: str) -> bool:
    """Whether an attribute says something about results."""
    return attribute not in _WITHOUT_MEANING
