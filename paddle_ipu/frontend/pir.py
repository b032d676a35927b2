"""Reads a PIR program (Paddle 3.x) into the paddle dialect.

The whole main block is read, backward and optimizer operators included; passes take it apart.
PIR's list values (``builtin.combine``, ``split``, ``slice``) dissolve into flat operands and
results, and the operators that name values become the graph's inputs:

    builtin.parameter {parameter_name}        -> input, role parameter (or learning_rate)
    pd_op.data {name, persistable: [true]}    -> input, role state
    pd_op.data {name}                         -> input, role feed

``pd_op.if`` and ``pd_op.while`` become nodes with blocks. Backward has them too, beside stacks that
carry values from forward: there they are ``if_grad`` and ``while_grad`` without blocks, and the
operators of stacks are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect import dialect, layers
from paddle_ipu.dialect.annotations import AMP, ANNOTATIONS, FLOATS_AS_TEXT
from paddle_ipu.dialect.value_names import NAME_PREFIX
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import control_flow
from paddle_ipu.frontend.control_flow import Region
from paddle_ipu.frontend.program_types import (
    PirBlock,
    PirOperation,
    PirProgram,
    PirTensorType,
    PirValue,
)

_DROPPED = frozenset(
    {"stop_gradient", "op_callstack", "struct_name", "place", "persistable", "op_role"}
)

_PARAMETER = "builtin.parameter"
_COMBINE, _SPLIT, _SLICE = "builtin.combine", "builtin.split", "builtin.slice"
_IF, _WHILE, _YIELD = "pd_op.if", "pd_op.while", "cf.yield"
_SELECT = "pd_op.select_input"
_STACKS = frozenset({"cf.stack_create", "cf.tuple_push", "cf.has_elements"})
_FROM_STACK = "cf.tuple_pop"

_UNREAD = {"pd_op.rnn": 4}
"""Operands that nothing here reads: the dropout state, whose value Paddle does not save."""


def read(program: PirProgram, learning_rate_name: str | None = None) -> ir.Graph:
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
    graph = ir.Graph(
        [value for value in reader.inputs if value.name not in reader.unsaved or value.uses()],
        [],
        nodes=reader.nodes,
        opset_imports={dialect.DOMAIN: 1},
        name="paddle",
    )
    layers.name_layers(graph)
    return graph


class _Reader:
    """Walks the operators of a block once, keeping which dialect value each PIR value became."""

    def __init__(self, learning_rate_name: str | None, outside: _Reader | None = None) -> None:
        self.inputs: list[ir.Value] = []
        self.unsaved: set[str] = set()
        self.region = Region()
        self.nodes = self.region.nodes
        self._learning_rate_name = learning_rate_name
        self._outside = outside
        self._values: dict[Hashable, ir.Value | None] = {}
        self._lists: dict[Hashable, list[ir.Value | None]] = {}
        self._feeds: dict[str, ir.Value] = {}
        self._names: set[str] = set() if outside is None else outside._names
        self._repeated: Counter[str] = Counter() if outside is None else outside._repeated

    def add(self, op: PirOperation) -> None:
        name = op.name()
        if name in (_IF, _WHILE):
            self._add_control_flow(op, name)
        elif name == _SELECT:
            self._add_selection(op)
        elif name in _STACKS:
            self._values.update((result.id, None) for result in op.results())
        elif name == _YIELD:
            self.region.results = [self._yielded(value) for value in op.operands_source()]
        elif name == _COMBINE:
            self._lists[op.result(0).id] = [self._find(v) for v in op.operands_source()]
        elif name == _SPLIT:
            self._split(op)
        elif name == _SLICE:
            # Paddle's translation of a ProgramDesc takes the members of a list one by one.
            parts = self._members(op.operand_source(0))
            self._set_result(op, 0, parts[int(op.attrs()["index"])])
        elif name == _PARAMETER or name == "pd_op.data":
            self._main()._add_input(op, name == _PARAMETER)
        else:
            self._add_node(op, name)

    def _split(self, op: PirOperation) -> None:
        """Reads ``builtin.split``: a member that an operator made takes the name it has here."""
        parts = self._members(op.operand_source(0))
        for index, part in enumerate(parts):
            self._set_result(op, index, part)

    def _set_result(self, op: PirOperation, index: int, part: ir.Value | None) -> None:
        """Makes a member of a list the result of that number."""
        result = op.result(index)
        self._values[result.id] = part
        if part is not None and part.producer() is not None:
            part.meta[dialect.STOPPED] = bool(result.stop_gradient)
        name = op.attrs().get(f"{NAME_PREFIX}{index}")
        if name is not None and part is not None and part.producer() is not None:
            part.name = name
            self._names.add(name)

    def _find(self, value: PirValue) -> ir.Value | None:
        if not value.initialized():
            return None
        if value.id in self._values or self._outside is None:
            return self._values[value.id]
        outer = self._outside._find(value)
        self._values[value.id] = None if outer is None else self.region.capture(outer)
        return self._values[value.id]

    def _is_list(self, value: PirValue) -> bool:
        if value.id in self._lists:
            return True
        return self._outside is not None and self._outside._is_list(value)

    def _members(self, value: PirValue) -> list[ir.Value | None]:
        """The members of a list, which an operator outside may have made."""
        if value.id not in self._lists and self._outside is not None:
            outer = self._outside._members(value)
            self._lists[value.id] = [
                None if member is None else self.region.capture(member) for member in outer
            ]
        return self._lists[value.id]

    def _main(self) -> _Reader:
        return self if self._outside is None else self._outside._main()

    def _add_input(self, op: PirOperation, is_parameter: bool) -> None:
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
        self._names.add(name)
        if is_parameter and not persistable:
            self.unsaved.add(name)
        if role == dialect.FEED and (declared := self._feeds.setdefault(name, value)) is not value:
            # As in 2.x, a second paddle.static.data of a name is the same variable.
            _check_declared_alike(declared, value)
            self._values[result.id] = declared
            return
        self._values[result.id] = value
        self.inputs.append(value)

    def _add_node(self, op: PirOperation, name: str) -> None:
        attributes = op.attrs()
        op_type = name.partition(".")[2]
        inputs, input_segments = self._gather(op)
        outputs, output_segments = self._results(op, op_type, attributes)
        kept = {
            key: _plain(op_type, key, value)
            for key, value in sorted(attributes.items())
            if key not in _DROPPED and not key.startswith(NAME_PREFIX)
        }
        kept |= _implied_attributes(op_type)
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
        node.meta[dialect.LAYER] = attributes.get("struct_name", "")
        node.meta[dialect.INPUT_NAMES] = _input_names(op, name)
        node.meta[dialect.MADE_FROM] = op
        self.nodes.append(node)

    # Blocks.

    def _add_control_flow(self, op: PirOperation, name: str) -> None:
        attributes = op.attrs()
        if _is_backward(op):
            read = dict(_gradients_read(op))
            operands = [self._find(value) for value in read.values() if self._has_value(value)]
            outputs, _ = self._results(op, f"{name.partition('.')[2]}_grad", attributes)
            node = control_flow.backward(f"{name.partition('.')[2]}_grad", [*operands], outputs)
            node.meta[dialect.INPUT_NAMES] = ("out_grad",) * len(operands)
        elif name == _IF:
            cond = self._find(op.operand_source(0))
            then, otherwise = (self._read_block(block) for block in op.blocks())
            outputs, _ = self._results(op, "if", attributes)
            assert cond is not None
            node = control_flow.condition(cond, then, otherwise, outputs)
        else:
            cond, *carried = [self._find(value) for value in op.operands_source()]
            (body,) = (self._read_block(block) for block in op.blocks())
            outputs, _ = self._results(op, "while", attributes)
            assert cond is not None
            node = control_flow.loop(
                cond, [value for value in carried if value is not None], body, outputs
            )
        for key in ANNOTATIONS:
            if key in attributes:
                node.attributes.add(dialect.make_attribute(key, attributes[key]))
        node.meta[dialect.CALLSTACK] = _callstack(op, attributes)
        node.meta[dialect.LAYER] = attributes.get("struct_name", "")
        self.nodes.append(node)

    def _add_selection(self, op: PirOperation) -> None:
        """Reads a selection between two blocks' results, as Paddle translates a ProgramDesc."""
        attributes = op.attrs()
        values = [self._find(value) for value in op.operands_source()]
        mask, otherwise, then = (value for value in values if value is not None)
        (output,), _ = self._results(op, "if", attributes)
        for node in control_flow.selection(mask, otherwise, then, output):
            node.meta[dialect.CALLSTACK] = _callstack(op, attributes)
            node.meta[dialect.LAYER] = attributes.get("struct_name", "")
            self.nodes.append(node)

    def _read_block(self, block: PirBlock) -> Region:
        reader = _Reader(None, self)
        for number, argument in enumerate(block.args()):
            name = self._unique_name(f"argument.{len(self.nodes)}.{number}")
            value = _value(name, argument)
            value.meta[dialect.STOPPED] = bool(argument.stop_gradient)
            reader._values[argument.id] = value
            reader.region.arguments.append(value)
        for op in block.ops:
            reader.add(op)
        return reader.region

    def _yielded(self, value: PirValue) -> ir.Value:
        found = self._find(value)
        if found is None:
            raise NotSupported(
                "a block of cond or while_loop returns nothing in the place of a tensor. Return a "
                "tensor from every branch."
            )
        return found

    def _has_value(self, value: PirValue) -> bool:
        known = value.id in self._values and self._values[value.id] is not None
        return known or (self._outside is not None and self._outside._has_value(value))

    def _gather(self, op: PirOperation) -> tuple[list[ir.Value | None], list[int] | None]:
        inputs: list[ir.Value | None] = []
        segments: list[int] = []
        has_list = False
        unread = _UNREAD.get(op.name())
        for index, value in enumerate(op.operands_source()):
            if index == unread:
                inputs.append(None)
                segments.append(1)
            elif value.initialized() and self._is_list(value):
                parts = self._members(value)
                inputs.extend(parts)
                segments.append(len(parts))
                has_list = True
            else:
                inputs.append(self._find(value))
                segments.append(1)
        return inputs, (segments if has_list else None)

    def _results(
        self, op: PirOperation, op_type: str, attributes: dict[str, Any]
    ) -> tuple[list[ir.Value], list[int] | None]:
        outputs: list[ir.Value] = []
        segments: list[int] = []
        has_list = False
        for index, result in enumerate(op.results()):
            name = attributes.get(f"{NAME_PREFIX}{index}")
            if name is None:
                name = self._unique_name(f"{op_type}.{len(self.nodes)}.{index}")
            self._names.add(name)
            if not result.initialized():
                # An output the operator leaves out keeps its place.
                outputs.append(ir.Value(name=name))
                segments.append(1)
                continue
            members = result.type().as_vec_type()
            if members is None:
                value = _value(name, result)
                value.meta[dialect.STOPPED] = bool(result.stop_gradient)
                self._values[result.id] = value
                outputs.append(value)
                segments.append(1)
            else:
                parts = [
                    dialect.make_value(
                        self._unique_name(f"{name}.{part}"), list(member.shape), _dtype(member)
                    )
                    for part, member in enumerate(members.as_list())
                ]
                self._lists[result.id] = list(parts)
                outputs.extend(parts)
                segments.append(len(parts))
                has_list = True
        return outputs, (segments if has_list else None)

    def _unique_name(self, name: str) -> str:
        unique = name
        while unique in self._names:
            # Blocks number their operators alike: a search from the first number would be long.
            self._repeated[name] += 1
            unique = f"{name}_{self._repeated[name]}"
        self._names.add(unique)
        return unique


def _is_backward(op: PirOperation) -> bool:
    """Whether control flow takes values from forward's stacks, or holds backward's operators."""
    return any(
        inner.name() == _FROM_STACK
        or inner.name().endswith(("_grad", "_grad_"))
        or _is_backward(inner)
        for block in op.blocks()
        for inner in block.ops
    )


def _gradients_read(op: PirOperation) -> Iterator[tuple[Hashable, PirValue]]:
    """(id, value) of all that control flow of backward reads as a gradient."""
    blocks = list(op.blocks())
    values = op.operands_source()
    if not blocks and op.name().endswith(("_grad", "_grad_")):
        names = op.get_input_names()
        values = [value for name, value in zip(names, values, strict=True) if name[-5:] == "_grad"]
    elif op.name() in ("pd_op.full_like", *_STACKS, _FROM_STACK):
        values = []
    for value in values:
        if value.initialized():
            yield value.id, value
    for block in blocks:
        for inner in block.ops:
            yield from _gradients_read(inner)


def _value(name: str, typed: PirValue) -> ir.Value:
    """The dialect's value for a tensor of PIR, or an array of tensors."""
    if typed.is_dense_tensor_array_type():
        return dialect.make_array(name, _dtype(typed))
    return dialect.make_value(name, list(typed.shape), _dtype(typed))


def _dtype(typed: PirTensorType) -> str:
    name = str(typed.dtype).rpartition(".")[2].lower()
    if name not in dialect.DTYPES:
        raise NotSupported(
            f"dtype {name} is not supported in IPU programs; use one of "
            f"{', '.join(sorted(dialect.DTYPES))}."
        )
    return name


def _implied_attributes(op_type: str) -> Mapping[str, int]:
    """Attributes that an older Paddle 3 does not write, as its operator has one value only."""
    if op_type.removesuffix("_") != "put_along_axis":
        return {}
    import paddle

    older = [int(part) for part in paddle.__version__.split(".")[:2]] < [3, 3]
    # Means of integers were rounded towards zero.
    return {"rounds_down": 0} if older else {}


def _callstack(op: PirOperation, attributes: Mapping[str, Any]) -> Sequence[str]:
    """The user's stack; Paddle records none for control flow, which takes that of its body."""
    found: Sequence[str] = attributes.get("op_callstack", ())
    if found:
        return found
    nested = (_callstack(inner, inner.attrs()) for block in op.blocks() for inner in block.ops)
    return next((stack for stack in nested if stack), ())


def _input_names(op: PirOperation, name: str) -> Sequence[str]:
    if name.startswith("custom_op."):
        # As a custom operator's author wrote them: X, Out@GRAD.
        return tuple(slot.lower().replace("@grad", "_grad") for slot in op.get_input_names())
    # Paddle knows operand names of its own dialect only, without control flow.
    named = name.startswith("pd_op.") and not list(op.blocks())
    return tuple(op.get_input_names()) if named else ()


def _check_declared_alike(first: ir.Value, second: ir.Value) -> None:
    shapes = [f"{dialect.dtype_name(value)}{dialect.dims_of(value)}" for value in (first, second)]
    if shapes[0] != shapes[1]:
        raise InvalidProgramError(
            f"feed {first.name!r} is declared as {shapes[0]} and again as {shapes[1]}: one name "
            "is one feed. Give paddle.static.data another name, or the same shape and dtype."
        )


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
