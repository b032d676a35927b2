"""Writes ProgramDescs without Paddle's legacy API: variables and operators as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import program_desc

_DTYPES = {"bool": 0, "int32": 2, "int64": 3, "float32": 5}
_FIELDS = {
    0: "i", 1: "f", 2: "s", 3: "ints", 4: "floats", 5: "strings", 6: "b", 7: "bools",
    9: "l", 11: "longs", 12: "float64s", 15: "float64",
}  # fmt: skip


class DescBuilder:
    """A ProgramDesc of one block under construction; ``program.desc`` is the message."""

    def __init__(self, version: int = 2_006_002) -> None:
        from paddle.base.proto import framework_pb2

        self._messages = framework_pb2
        self.desc = framework_pb2.ProgramDesc()
        self.desc.version.version = version
        self.block = self.desc.blocks.add(idx=0, parent_idx=-1)

    def variable(
        self,
        name: str,
        dims: Sequence[int] = (2, 3, 4),
        dtype: str = "float32",
        persistable: bool = False,
        is_parameter: bool = False,
        is_feed: bool = False,
    ) -> str:
        """Declares a dense tensor and gives its name."""
        variable = self.block.vars.add(
            name=name,
            persistable=persistable,
            is_parameter=is_parameter,
            need_check_feed=is_feed,
        )
        variable.type.type = 7
        field = variable.type.DESCRIPTOR.fields_by_number[3].name
        tensor = getattr(variable.type, field).tensor
        tensor.data_type = _DTYPES[dtype]
        tensor.dims.extend(dims)
        return name

    def operator(
        self,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Appends an operator; attributes take the kind that Paddle's own operator declares."""
        op = self.block.ops.add(type=type)
        for slot, names in inputs.items():
            op.inputs.add(parameter=slot).arguments.extend(names)
        for slot, names in outputs.items():
            op.outputs.add(parameter=slot).arguments.extend(names)
        kinds = attribute_kinds().get(type, {})
        for name, value in (attributes or {}).items():
            self.attribute(op, name, value, kinds.get(name))

    def attribute(self, op: Any, name: str, value: Any, kind: int | None = None) -> None:
        """Adds an attribute to an operator's message, of the `kind` or what fits the value."""
        kind = _kind(value) if kind is None else kind
        if kind in (16, 17):
            # A scalar, or several: they are of a kind of their own in a message.
            attribute = op.attrs.add(name=name, type=kind)
            for item in value if kind == 17 else [value]:
                scalar = attribute.scalars.add() if kind == 17 else attribute.scalar
                scalar.type, scalar.r = 3, float(item)
            return
        attribute = op.attrs.add(name=name, type=kind)
        field = _FIELDS[kind]
        if isinstance(value, (list, tuple)):
            getattr(attribute, field).extend(value)
        else:
            setattr(attribute, field, value)

    def operator_version(self, name: str, version: int) -> None:
        """Says of which version the program's operators of that name are."""
        pair = self.desc.op_version_map.pair.add(op_name=name)
        pair.op_version.version = version

    def serialized(self) -> bytes:
        """The program as a file holds it."""
        return bytes(self.desc.SerializeToString())


@cache
def _protos() -> Mapping[str, Any]:
    from paddle.base import core
    from paddle.base.proto import framework_pb2

    found = (framework_pb2.OpProto.FromString(each) for each in core.get_all_op_protos())
    return {proto.type: proto for proto in found}


@cache
def attribute_kinds() -> Mapping[str, Mapping[str, int]]:
    """Operator -> attribute -> its ``AttrType``, as Paddle's operators declare them."""
    return {
        name: {attribute.name: attribute.type for attribute in proto.attrs}
        for name, proto in _protos().items()
    }


def input_slots(operator: str) -> frozenset[str] | None:
    """The slots of an operator's inputs, `None` where this version of Paddle lacks the operator."""
    proto = _protos().get(operator)
    return None if proto is None else frozenset(slot.name for slot in proto.inputs)


def _kind(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        first = value[0] if value else 0
        return {int: 3, float: 4, str: 5}[type(first)]
    return {bool: 6, int: 0, float: 1, str: 2}[type(value)]


def read(builder: DescBuilder) -> ir.Graph:
    """The dialect graph of what was built."""
    return program_desc.read(builder.serialized())


def text(graph: ir.Graph) -> list[str]:
    """Each node as ``results = operator(operands)``; constants and empty places are left out."""
    lines: list[str] = []
    for node in graph:
        if node.op_type not in ("full", "full_int_array"):
            given = [value for value in node.inputs if value is not None]
            names = [str(value.name) for value in given if dialect.constant(value) is None]
            results = ", ".join(str(value.name) for value in node.outputs)
            lines.append(f"{results} = {node.op_type}({', '.join(names)})")
    return lines


def constants(node: ir.Node) -> dict[str, Any]:
    """Operand name -> value, of a node's constant operands."""
    found = {name: dialect.constant(value) for name, value in dialect.operands(node)}
    return {name: array.tolist() for name, array in found.items() if array is not None}
