"""Reads a PIR program (Paddle 3.x) into the paddle dialect.

The whole main block is read, backward and optimizer operators included; passes take it apart.
PIR's list values (``builtin.combine``, ``split``, ``slice``) dissolve into flat operands and
results, and the operators that name values become the graph's inputs:

    builtin.parameter {parameter_name}        -> input, role parameter (or learning_rate)
    pd_op.data {name, persistable: [true]}    -> input, role state
    pd_op.data {name}                         -> input, role feed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from paddle_ipu import dialect
from paddle_ipu.annotations import AMP, FLOATS_AS_TEXT
from paddle_ipu.errors import NotSupported
from paddle_ipu.value_names import NAME_PREFIX

_DROPPED = frozenset(
    {"stop_gradient", "op_callstack", "struct_name", "place", "persistable", "op_role"}
)

_PARAMETER = "builtin.parameter"
_COMBINE, _SPLIT, _SLICE = "builtin.combine", "builtin.split", "builtin.slice"


def read(program: Any, learning_rate_name: str | None = None) -> ir.Graph:
    """The dialect graph of a ``paddle.pir.Program``.

    Args:
        program: the program; it is not changed.
        learning_rate_name: the variable that a scheduler writes, where the program has one.

    Returns:
        A graph whose inputs are the feeds, parameters and states, in the program's order. It has
        no outputs: every value is found by its name.

    Raises:
        NotSupported: an attribute or a dtype that the dialect cannot hold.
    """
    reader = _Reader(learning_rate_name)
    for op in program.global_block().ops:
        reader.add(op)
    return ir.Graph(
        reader.inputs,
        [],
        nodes=reader.nodes,
        opset_imports={dialect.DOMAIN: 1},
        name="paddle",
    )


class _Reader:
    """Walks the operators of a block once, keeping which dialect value each PIR value became."""

    def __init__(self, learning_rate_name: str | None) -> None:
        self.inputs: list[ir.Value] = []
        self.nodes: list[ir.Node] = []
        self._learning_rate_name = learning_rate_name
        self._values: dict[str, ir.Value | None] = {}
        self._lists: dict[str, list[ir.Value | None]] = {}
        self._taken: set[str] = set()

    def add(self, op: Any) -> None:
        name = op.name()
        if name == _COMBINE:
            self._lists[op.result(0).id] = [self._find(v) for v in op.operands_source()]
        elif name == _SPLIT:
            self._split(op)
        elif name == _SLICE:
            # Paddle's translation of a ProgramDesc takes the members of a list one by one.
            parts = self._lists[op.operand_source(0).id]
            self._take(op, 0, parts[int(op.attrs()["index"])])
        elif name == _PARAMETER or name == "pd_op.data":
            self._add_input(op, name == _PARAMETER)
        else:
            self._add_node(op, name)

    def _split(self, op: Any) -> None:
        """The members of a list; one that an operator made takes the name it got here."""
        parts = self._lists[op.operand_source(0).id]
        for index, part in enumerate(parts):
            self._take(op, index, part)

    def _take(self, op: Any, index: int, part: ir.Value | None) -> None:
        """A member of a list becomes the result of that number."""
        result = op.result(index)
        self._values[result.id] = part
        if part is not None and part.producer() is not None:
            part.meta[dialect.STOPPED] = bool(result.stop_gradient)
        name = op.attrs().get(f"{NAME_PREFIX}{index}")
        if name is not None and part is not None and part.producer() is not None:
            part.name = name
            self._taken.add(name)

    def _find(self, value: Any) -> ir.Value | None:
        if not value.initialized():
            return None
        return self._values[value.id]

    def _add_input(self, op: Any, is_parameter: bool) -> None:
        attributes = op.attrs()
        name = attributes["parameter_name" if is_parameter else "name"]
        result = op.result(0)
        value = dialect.make_value(name, list(result.shape), _dtype(result))
        persistable = bool(attributes.get("persistable", [False])[0])
        if name == self._learning_rate_name:
            role = dialect.LEARNING_RATE
        elif is_parameter:
            role = dialect.PARAMETER
        else:
            role = dialect.STATE if persistable else dialect.FEED
        value.meta[dialect.ROLE] = role
        value.meta[AMP] = attributes.get(AMP)
        value.meta[dialect.TRAINABLE] = bool(attributes.get("trainable", [False])[0])
        value.meta[dialect.CALLSTACK] = attributes.get("op_callstack", ())
        self._taken.add(name)
        self._values[result.id] = value
        self.inputs.append(value)

    def _add_node(self, op: Any, name: str) -> None:
        attributes = op.attrs()
        op_type = name.partition(".")[2]
        inputs, input_segments = self._gather(op)
        outputs, output_segments = self._results(op, op_type, attributes)
        kept = {
            key: _plain(op_type, key, value)
            for key, value in sorted(attributes.items())
            if key not in _DROPPED and not key.startswith(NAME_PREFIX)
        }
        if input_segments is not None:
            kept["input_segments"] = input_segments
        if output_segments is not None:
            kept["output_segments"] = output_segments
        node = ir.Node(
            dialect.DOMAIN,
            op_type,
            inputs,
            [dialect.make_attribute(key, value) for key, value in kept.items()],
            outputs=outputs,
            name=outputs[0].name if outputs else op_type,
        )
        node.meta[dialect.CALLSTACK] = _callstack(op, attributes)
        node.meta[dialect.INPUT_NAMES] = _input_names(op, name)
        self.nodes.append(node)

    def _gather(self, op: Any) -> tuple[list[ir.Value | None], list[int] | None]:
        inputs: list[ir.Value | None] = []
        segments: list[int] = []
        has_list = False
        for value in op.operands_source():
            if value.initialized() and value.id in self._lists:
                parts = self._lists[value.id]
                inputs.extend(parts)
                segments.append(len(parts))
                has_list = True
            else:
                inputs.append(self._find(value))
                segments.append(1)
        return inputs, (segments if has_list else None)

    def _results(
        self, op: Any, op_type: str, attributes: dict[str, Any]
    ) -> tuple[list[ir.Value], list[int] | None]:
        outputs: list[ir.Value] = []
        segments: list[int] = []
        has_list = False
        for index, result in enumerate(op.results()):
            name = attributes.get(f"{NAME_PREFIX}{index}")
            if name is None:
                name = self._fresh(f"{op_type}.{len(self.nodes)}.{index}")
            self._taken.add(name)
            if not result.initialized():
                # An output the operator leaves out keeps its place.
                outputs.append(ir.Value(name=name))
                segments.append(1)
                continue
            members = result.type().as_vec_type()
            if members is None:
                value = dialect.make_value(name, list(result.shape), _dtype(result))
                value.meta[dialect.STOPPED] = bool(result.stop_gradient)
                self._values[result.id] = value
                outputs.append(value)
                segments.append(1)
            else:
                parts = [
                    dialect.make_value(
                        self._fresh(f"{name}.{part}"), list(member.shape), _dtype(member)
                    )
                    for part, member in enumerate(members.as_list())
                ]
                self._lists[result.id] = list(parts)
                outputs.extend(parts)
                segments.append(len(parts))
                has_list = True
        return outputs, (segments if has_list else None)

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _dtype(typed: Any) -> str:
    name = str(typed.dtype).rpartition(".")[2].lower()
    if name not in dialect.DTYPES:
        raise NotSupported(
            f"dtype {name} is not supported in IPU programs; use one of "
            f"{', '.join(sorted(dialect.DTYPES))}."
        )
    return name


def _callstack(op: Any, attributes: Mapping[str, Any]) -> Sequence[str]:
    """The user's stack; Paddle records none for control flow, which takes that of its body."""
    found: Sequence[str] = attributes.get("op_callstack", ())
    if found:
        return found
    nested = (_callstack(inner, inner.attrs()) for block in op.blocks() for inner in block.ops)
    return next((stack for stack in nested if stack), ())


def _input_names(op: Any, name: str) -> Sequence[str]:
    # Paddle knows operand names of its own dialect only, without control flow.
    named = name.startswith("pd_op.") and not list(op.blocks())
    return tuple(op.get_input_names()) if named else ()


def _plain(op_type: str, key: str, value: Any) -> Any:
    """The attribute as a number, a string or a list of them."""
    if key in FLOATS_AS_TEXT:
        return float(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(op_type, key, item) for item in value]
    kind = type(value).__name__
    if kind in ("DataType", "VarType"):
        return str(value).rpartition(".")[2].lower()
    if kind == "Place":
        return str(value)
    raise NotSupported(
        f"operator {op_type}: attribute {key!r} is a {kind}, which the IPU program cannot hold."
    )
