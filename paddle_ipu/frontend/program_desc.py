"""Reads a ProgramDesc (Paddle 2.6, saved .pdmodel files) into the paddle dialect.

A ProgramDesc writes variables again and again; the dialect's values are written once. So every
write makes a new version of the variable. The last version of a variable has the variable's name;
of a persistable variable the first has, the one that holds the weight:

    x@1 = relu(...)  x = scale(x@1)            w@1 = sgd_(w, ...)

Blocks of ``conditional_block`` and ``while`` become blocks of nodes by ``control_flow_desc``.

Operators, slots and attributes take phi's names and PIR's order by ``frontend/vocabulary``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect import dialect, layers
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import control_flow_desc, expand_fused, legacy_forms, legacy_operator
from paddle_ipu.frontend.control_flow import Region
from paddle_ipu.frontend.control_flow_desc import ARRAY
from paddle_ipu.frontend.desc_message import dense_tensor, parse
from paddle_ipu.frontend.legacy_operator import COMMON, EMPTY, Block, Operator, Variables
from paddle_ipu.frontend.op_versions import check_versions
from paddle_ipu.frontend.program_types import ProgramDesc, TensorDesc
from paddle_ipu.frontend.vocabulary import table
from paddle_ipu.frontend.vocabulary.row import Constant, Slot

_OP_ROLE = "op_role"
_FEED, _FETCH = "feed", "fetch"
STATISTICS = ("batch_norm_", "sync_batch_norm_")
"""Operators that write their running statistics in place, which without training are as before."""

_DENSE, _SELECTED_ROWS = 7, 8

_BACKWARD = 1
_PARAMETER = "param"
"""The operand of every operator that updates a weight."""

_PLACEMENT = ("ipu_index", "ipu_stage")
_BOOKKEEPING = frozenset(
    {
        "op_device", "op_namescope", "op_role_var", "with_quant_attr", "use_mkldnn",
        "mkldnn_data_type", "use_cudnn", "use_quantizer", "use_onednn",
    }
)  # fmt: skip


def read(
    program: Any,
    learning_rate_name: str | None = None,
    structured: Mapping[str, str] | None = None,
) -> ir.Graph:
    """The dialect graph of a ProgramDesc.

    Args:
        program: a legacy ``Program``, a serialised ProgramDesc, or a ``framework_pb2.ProgramDesc``;
            it is not changed.
        learning_rate_name: the variable that a scheduler writes, where the program has one.
        structured: parameter -> its name in the layer that was saved, where that is known.

    Returns:
        A graph whose inputs are the feeds, parameters and states, in the order of their first use.
        It has no outputs: every value is found by its name.

    Raises:
        InvalidProgramError: the bytes are no ProgramDesc, or it contradicts itself.
        NotSupported: a dtype the dialect cannot hold, an operator's version or an
            attribute's value that the vocabulary does not know.
    """
    desc = parse(program)
    check_versions(desc)
    desc = expand_fused.expanded(desc)
    reader = _Reader(desc, learning_rate_name)
    return reader.graph(structured)


def signature(program: Any) -> tuple[list[str], list[str]]:
    """The names of a saved program's feeds and of its fetches, in the order of their columns.

    Args:
        program: as `read` takes it. A program that was not saved has neither.
    """
    feeds: dict[int, str] = {}
    fetches: dict[int, str] = {}
    for op in parse(program).blocks[0].ops:
        if op.type in (_FEED, _FETCH):
            operator = legacy_operator.parse(op)
            column = int(operator.attributes.get("col", 0))
            if op.type == _FEED:
                feeds[column] = str(operator.output("Out"))
            else:
                fetches[column] = str(operator.input("X"))
    return [feeds[at] for at in sorted(feeds)], [fetches[at] for at in sorted(fetches)]


class _Reader:
    """Walks the operators of a block once, keeping each variable's newest version."""

    def __init__(
        self,
        desc: ProgramDesc,
        learning_rate_name: str | None,
        number: int = 0,
        outside: _Reader | None = None,
    ) -> None:
        block = desc.blocks[number]
        self.version = int(desc.version.version)
        self.region = Region()
        self._desc = desc
        self._outside = outside
        self._own = {var.name for var in block.vars}
        self._variables = {var.name: var for var in block.vars}
        if outside is not None:
            self._variables = {**outside._variables, **self._variables}
        operators = [legacy_operator.parse(op) for op in block.ops]
        # Of the whole program, which is walked once, not for each of its blocks.
        self._tensors: set[str] = (
            control_flow_desc.tensors_of(desc) if outside is None else outside._tensors
        )
        operators = control_flow_desc.combined(desc, operators, self._tensors)
        self._fed = {op.output("Out") for op in operators if op.type == _FEED}
        self._operators = [
            form for op in operators if op.type not in (_FEED, _FETCH) for form in self._modern(op)
        ]
        self._learning_rate_name = learning_rate_name
        self._inputs: list[ir.Value] = []
        self._nodes = self.region.nodes
        self.newest: dict[str, ir.Value] = {}
        self._names = set(self._variables)
        self._writes: Counter[str] = Counter(
            name for op in self._operators for names in op.outputs.values() for name in names
        )
        self._written: Counter[str] = Counter()
        self._left_out: set[str] = set()
        others = {
            name
            for op in self._operators
            if op.type not in STATISTICS
            for names in op.outputs.values()
            for name in names
        }
        self._statistics = {
            name
            for op in self._operators
            if op.type in STATISTICS
            for name in (op.input("Mean"), op.input("Variance"))
            if name is not None and name not in others
        }

    def _modern(self, operator: Operator) -> list[Operator]:
        with _reporting_damage(operator):
            return legacy_forms.modern(operator, self)

    def graph(self, structured: Mapping[str, str] | None) -> ir.Graph:
        self.read_all()
        for name, variable in self._variables.items():
            declared = variable.persistable or variable.need_check_feed
            if declared and name not in self.newest and variable.type.type == _DENSE:
                self._add_input(name)
        graph = ir.Graph(
            self._inputs,
            [],
            nodes=self._nodes,
            opset_imports={dialect.DOMAIN: 1},
            name="paddle",
        )
        layers.name_layers(graph, structured)
        return graph

    # Variables.

    def shape(self, name: str) -> list[int]:
        return list(self._tensor(name).dims)

    def dtype(self, name: str) -> int:
        return int(self._tensor(name).data_type)

    def is_persistable(self, name: str) -> bool:
        variable = self._variables.get(name)
        return variable is not None and bool(variable.persistable)

    def _tensor(self, name: str) -> TensorDesc:
        """The ``TensorDesc`` of a variable."""
        variable = self._variables.get(name)
        if variable is None:
            raise InvalidProgramError(
                f"the program uses variable {name!r}, which it never declares."
            )
        kind = variable.type
        if kind.type == _DENSE:
            return dense_tensor(kind)
        if kind.type == _SELECTED_ROWS:
            return kind.selected_rows
        if kind.type == ARRAY:
            return kind.tensor_array.tensor
        raise NotSupported(
            f"variable {name!r} is no dense tensor (kind {kind.type} of VarType); IPU "
            "programs hold dense tensors only."
        )

    def _is_tensor(self, name: str) -> bool:
        variable = self._variables.get(name)
        return variable is not None and variable.type.type in (_DENSE, _SELECTED_ROWS, ARRAY)

    def _is_array(self, name: str) -> bool:
        variable = self._variables.get(name)
        return variable is not None and variable.type.type == ARRAY

    def declare(self, like: str, shape: Sequence[int]) -> str:
        """A new variable of the dtype of another."""
        from paddle.base.proto import framework_pb2

        variable = framework_pb2.VarDesc()
        variable.CopyFrom(self._variables[like])
        variable.name = self._unused(f"{like}.form")
        variable.persistable = variable.need_check_feed = False
        tensor = dense_tensor(variable.type)
        del tensor.dims[:]
        tensor.dims.extend(shape)
        self._variables[variable.name] = variable
        return str(variable.name)

    def _unused(self, name: str) -> str:
        number = 0
        while f"{name}.{number}" in self._variables:
            number += 1
        return f"{name}.{number}"

    def _value(self, name: str, version: str) -> ir.Value:
        tensor = self._tensor(name)
        dtype = legacy_operator.DTYPES.get(tensor.data_type)
        if dtype is None:
            raise NotSupported(
                f"variable {name!r} has dtype number {tensor.data_type}, which is not supported in "
                f"IPU programs; use one of {', '.join(sorted(dialect.DTYPES))}."
            )
        if self._is_array(name):
            value = dialect.make_array(version, dtype)
        else:
            value = dialect.make_value(version, list(tensor.dims), dtype)
        value.meta[dialect.VARIABLE] = name
        variable = self._variables.get(name)
        value.meta[dialect.STOPPED] = variable is not None and bool(variable.stop_gradient)
        return value

    def _add_input(self, name: str) -> ir.Value:
        variable = self._variables.get(name)
        value = self._value(name, name)
        assert variable is not None
        if name == self._learning_rate_name:
            role = dialect.LEARNING_RATE
        elif variable.is_parameter:
            role = dialect.PARAMETER
        else:
            role = dialect.STATE if variable.persistable else dialect.FEED
        value.meta[dialect.ROLE] = role
        value.meta[dialect.TRAINABLE] = variable.is_parameter and not variable.stop_gradient
        value.meta[dialect.CALLSTACK] = ()
        self.newest[name] = value
        self._inputs.append(value)
        return value

    # Blocks, as `control_flow_desc` reads them.

    def inside(self, block: int) -> _Reader:
        return _Reader(self._desc, None, block, self)

    def read_all(self) -> None:
        for operator in self._operators:
            with _reporting_damage(operator):
                self._add(operator)

    def current(self, name: str) -> ir.Value | None:
        if name not in self.newest and self._outside is not None and name not in self._own:
            outer = self._outside.current(name)
            if outer is not None:
                self.newest[name] = self.region.capture(outer)
        if name not in self.newest and self._is_array(name):
            # A ProgramDesc only declares an array.
            self._append_array(name)
        if name not in self.newest and self._outside is None and self._keeps_first(name):
            self._add_input(name)
        return self.newest.get(name)

    def argument(self, name: str) -> ir.Value:
        self.newest[name] = self._value(name, self._unique_name(f"{name}@0"))
        return self.newest[name]

    def append_node(self, operator: Operator, node: ir.Node) -> None:
        for key, value in sorted(_carried(operator).items()):
            node.attributes[key] = dialect.make_attribute(key, value)
        node.meta[dialect.CALLSTACK] = operator.callstack
        node.meta[dialect.LAYER] = operator.scope
        self._nodes.append(node)

    def find(self, operator: Operator, name: str) -> ir.Value | None:
        if name == EMPTY:
            return None
        is_current = self._outside is not None or self._is_array(name)
        found = self.current(name) if is_current else self.newest.get(name)
        if found is not None:
            return found
        if self._outside is not None and name not in self._own:
            outer = self._outside.find(operator, name)
            assert outer is not None
            self.newest[name] = self.region.capture(outer)
            return self.newest[name]
        if self._writes[name] and not self._keeps_first(name):
            raise InvalidProgramError(
                f"operator {operator.type}{operator.place} reads {name!r} before anything has "
                "written it."
            )
        return self._add_input(name)

    def _keeps_first(self, name: str) -> bool:
        """Whether the variable's name is that of its first version, which the graph is given."""
        return self.is_persistable(name) or self._is_fed(name) or name in self._statistics

    def _is_fed(self, name: str) -> bool:
        variable = self._variables.get(name)
        return name in self._fed or (variable is not None and bool(variable.need_check_feed))

    def write(self, name: str) -> ir.Value:
        self._written[name] += 1
        is_last = self._written[name] == self._writes[name]
        keeps_first = self._keeps_first(name)
        version = name if is_last and not keeps_first else f"{name}@{self._written[name]}"
        if keeps_first and name not in self.newest:
            # The weight itself keeps the name, read or not.
            self.current(name)
        while version != name and version in self._names:
            version += "_"
        self._names.add(version)
        value = self._value(name, version)
        before = self.newest.get(name)
        if self._is_fed(name) and name not in self._statistics and before is not None:
            before.meta[dialect.WRITTEN_AGAIN] = version
        self.newest[name] = value
        return value

    def _append_array(self, name: str) -> None:
        value = self._value(name, self._unique_name(f"{name}@0"))
        self.newest[name] = value
        node = ir.Node(dialect.DOMAIN, "create_array", [], [], outputs=[value], name=value.name)
        node.meta[dialect.INPUT_NAMES] = node.meta[dialect.CALLSTACK] = ()
        self._nodes.append(node)

    # Operators.

    def _add(self, operator: Operator) -> None:
        if control_flow_desc.add(self, operator):
            return
        row = table.find(operator)
        if row is None:
            self._add_unknown(operator)
            return
        inputs: list[ir.Value | None] = []
        names: list[str] = []
        segments: list[int] = []
        has_list = False
        if row.is_backward:
            operator = self._without_left_out(operator)
        elif not int(operator.attributes.get(_OP_ROLE, 0)) & _BACKWARD:
            # A gradient maker may copy forward's attributes to an operator that has none of them.
            table.check(operator, row)
        for operand in row.inputs:
            part = self._operand(operator, operand.sources)
            names.append(operand.name)
            if isinstance(part, list):
                inputs.extend(part)
                segments.append(len(part))
                has_list = True
            else:
                inputs.append(part)
                segments.append(1)
        attributes = {
            name: table.attribute_value(operator, name, source)
            for name, source in row.attributes.items()
        }
        if has_list:
            attributes["input_segments"] = segments
        outputs: list[ir.Value] = []
        output_segments: list[int] = []
        for result in row.outputs:
            written = operator.outputs.get(result.slot, ())
            if result.is_list:
                outputs.extend(self._result(name, row.op) for name in written)
                output_segments.append(len(written))
            else:
                outputs.append(self._result(written[0] if written else EMPTY, row.op))
                output_segments.append(1)
        if any(result.is_list for result in row.outputs):
            attributes["output_segments"] = output_segments
        self._append(operator, row.op, inputs, names, attributes, outputs)
        if _PARAMETER in names:
            # As in PIR, who reads a weight behind its update reads the weight; passes refuse it.
            for value in inputs:
                if value is not None and dialect.VARIABLE in value.meta:
                    self.newest[value.meta[dialect.VARIABLE]] = value
        known = {result.slot for result in row.outputs}
        for slot, written in operator.outputs.items():
            if slot not in known:
                self._left_out.update(written)

    def _without_left_out(self, operator: Operator) -> Operator:
        """Without results that no row has: backward reads ``XShape`` and its like."""
        inputs = {
            slot: [EMPTY if name in self._left_out else name for name in names]
            for slot, names in operator.inputs.items()
        }
        return operator.changed(inputs=inputs)

    def _add_unknown(self, operator: Operator) -> None:
        """An operator without a row, unchanged: only a custom operator's translator reads it."""
        slots = _declared_order(operator.type, list(operator.inputs))
        inputs = [
            self.find(operator, name)
            for slot in slots
            for name in operator.inputs[slot]
            if self._is_tensor(name)
        ]
        attributes = {
            name: value
            for name, value in operator.attributes.items()
            if name not in _BOOKKEEPING and name not in COMMON and not _is_reference(value)
        }
        outputs = [
            self._result(name if self._is_tensor(name) else EMPTY, operator.type)
            for slot in _declared_order(operator.type, list(operator.outputs), outputs=True)
            for name in operator.outputs[slot]
        ]
        self._append(operator, operator.type, inputs, [], attributes, outputs)

    def _operand(
        self, operator: Operator, sources: Sequence[Slot | Constant]
    ) -> ir.Value | list[ir.Value | None] | None:
        for source in sources:
            if isinstance(source, Slot):
                names = [name for name in operator.inputs.get(source.name, ()) if name != EMPTY]
                if not names:
                    continue
                if source.is_list:
                    return [self.find(operator, name) for name in names]
                return self.find(operator, names[0])
            value = table.attribute_value(
                operator, source.attribute.name, source.attribute, may_be_tensor=True
            )
            if isinstance(value, Variables):
                found = [self.find(operator, name) for name in value.names]
                return found if value.is_list else found[0]
            return self._constant(operator, source, value)
        return None

    def _constant(self, operator: Operator, source: Constant, value: Any) -> ir.Value:
        if source.dtype is None:
            items = [value] if isinstance(value, int) else list(value)
            attributes: dict[str, Any] = {"dtype": "int64", "value": items}
            result = dialect.make_value(
                self._unique_name(f"full_int_array.{len(self._nodes)}.0"), [len(items)], "int64"
            )
            self._append(operator, "full_int_array", [], [], attributes, [result])
            return result
        attributes = {"dtype": source.dtype, "shape": [1], "value": float(value)}
        result = dialect.make_value(
            self._unique_name(f"full.{len(self._nodes)}.0"), [1], source.dtype
        )
        self._append(operator, "full", [], [], attributes, [result])
        return result

    def _result(self, name: str, op_type: str) -> ir.Value:
        if name == EMPTY:
            # An output the operator leaves out keeps its place.
            return ir.Value(name=self._unique_name(f"{op_type}.{len(self._nodes)}"))
        return self.write(name)

    def _unique_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _append(
        self,
        operator: Operator,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        names: Sequence[str],
        attributes: Mapping[str, Any],
        outputs: Sequence[ir.Value],
    ) -> None:
        kept = {**attributes, **_carried(operator)}
        node = ir.Node(
            dialect.DOMAIN,
            op_type,
            inputs,
            [dialect.make_attribute(key, value) for key, value in sorted(kept.items())],
            outputs=outputs,
            name=outputs[0].name if outputs else op_type,
        )
        node.meta[dialect.CALLSTACK] = operator.callstack
        node.meta[dialect.LAYER] = operator.scope
        node.meta[dialect.INPUT_NAMES] = tuple(names)
        node.meta[dialect.MADE_FROM] = operator
        node.meta[dialect.OPERAND_VARIABLES] = [_variable(value) for value in inputs]
        node.meta[dialect.RESULT_VARIABLES] = [_variable(value) for value in outputs]
        self._nodes.append(node)


def _variable(value: ir.Value | None) -> str | None:
    """The variable that a value is a version of."""
    return None if value is None else value.meta.get(dialect.VARIABLE, value.name)


def _carried(operator: Operator) -> dict[str, Any]:
    found = {name: operator.attributes[name] for name in COMMON if name in operator.attributes}
    # Outside every shard Paddle writes -1.
    return {
        name: value for name, value in found.items() if name not in _PLACEMENT or int(value) >= 0
    }


@contextmanager
def _reporting_damage(operator: Operator) -> Iterator[None]:
    """Reports an attribute of another kind, or a list of another length, as damage."""
    try:
        yield
    except (TypeError, ValueError, LookupError) as error:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place} contradicts itself "
            f"({type(error).__name__}: {error}). The program is damaged; if Paddle runs it, the "
            "fault is paddle_ipu's: report it."
        ) from error


def _declared_order(op_type: str, slots: list[str], outputs: bool = False) -> list[str]:
    """The slots as the operator was registered; a ProgramDesc has them in alphabetical order.

    Where this process does not know the operator, they stay as they are.
    """
    from paddle.base.framework import OpProtoHolder

    proto = OpProtoHolder.instance().op_proto_map.get(op_type)
    if proto is None:
        return slots
    declared = [slot.name for slot in (proto.outputs if outputs else proto.inputs)]
    return sorted(slots, key=lambda slot: declared.index(slot) if slot in declared else len(slots))


def _is_reference(value: object) -> bool:
    """Whether an attribute names variables or blocks."""
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, (Block, Variables)) for item in items)
