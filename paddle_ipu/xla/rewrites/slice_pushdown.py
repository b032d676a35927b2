"""Leaves out rows that a Slice behind them throws away.

A classifier on BERT reads the first token of the last layer; what that layer's products, norms and
scores make of all others is lost. The Slice is moved up to where the rows meet each other or are
read by somebody else: there each row still follows from the same rows, by the same operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.schema import schema_of_node
from paddle_ipu.popart.shape_inference.constants import constant_of
from paddle_ipu.xla.lowerings import scope_names
from paddle_ipu.xla.lowerings.node_values import STANDARD, needed_tensors, permutation, static_dims

if TYPE_CHECKING:
    from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph

_WORTHWHILE = frozenset({"MatMul", "GroupNormalization", "Softmax"})
"""What XLA would not leave out by itself."""

_MOST_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """Places start, start + step, ... along an axis, `count` of them."""

    axis: int
    start: int
    step: int
    count: int

    @property
    def places(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self.start + self.step * np.arange(self.count, dtype=np.int64)


Needs = list[Rows | None]
"""Which rows of each input an operator needs; None for all."""

_Rule = Callable[[ir.Node, Rows], Needs | None]


class PushSlices:
    """Leaves out rows that a Slice behind them throws away."""

    name = "push_slices"
    requires = ()
    ensures = ("unread rows left out",)

    def run(self, program: InferenceGraph, /) -> bool:
        """Nothing where every operator's result is looked at."""
        if program.checks_floats:
            return False
        before = program.graph
        program.graph = without_unread_rows(before, program.anchors)
        return program.graph is not before


def without_unread_rows(graph: ir.Graph, kept: Collection[str]) -> ir.Graph:
    """A copy of the graph that leaves them out; the graph itself where there are none.

    Args:
        graph: a graph of inference whose tensors are typed, as ``replacement.copied`` gives it.
        kept: tensors that are results, or are looked at.
    """
    search = _Search(needed_tensors(graph, kept))
    for node in reversed(tuple(graph)):
        search.visit(node)
    if not any(node.op_type in _WORTHWHILE for node in search.narrowed):
        return graph
    return _rewritten(graph, search)


@dataclass(slots=True)
class _Search:
    """Goes through a graph from its end.

    Attributes:
        slices: Slices of rows, which each of them takes of its input.
        narrowed: operators that make fewer rows, with what they need of their inputs.
        rows: those of the first result of each of these.
    """

    kept: Collection[str]
    slices: dict[ir.Node, Rows] = field(default_factory=dict)
    narrowed: dict[ir.Node, Needs] = field(default_factory=dict)
    rows: dict[ir.Node, Rows] = field(default_factory=dict)
    _asked: dict[ir.Value, list[Rows]] = field(default_factory=dict)

    def visit(self, node: ir.Node) -> None:
        own = rows_of_slice(node)
        if own is not None:
            self.slices[node] = own
            self._ask(node.inputs[0], own)
            return
        rows = self._only(node)
        rule = None if rows is None else _rule(node)
        if rows is None or rule is None:
            return
        needs = rule(node, rows)
        if needs is None:
            return
        self.narrowed[node], self.rows[node] = needs, rows
        for value, need in zip(node.inputs, needs, strict=True):
            if need is not None:
                self._ask(value, need)

    def _ask(self, value: ir.Value | None, rows: Rows) -> None:
        assert value is not None
        self._asked.setdefault(value, []).append(rows)

    def _only(self, node: ir.Node) -> Rows | None:
        """The rows that are read of a node's first result, which is all that is read of it."""
        if not node.outputs or any(value.uses() for value in node.outputs[1:]):
            return None
        value = node.outputs[0]
        asked = self._asked.get(value, [])
        if len(asked) != len(tuple(value.uses())) or len(set(asked)) != 1:
            return None
        if any(value.name in self.kept for value in node.outputs) or not static_dims(value):
            return None
        return asked[0]


def rows_of_slice(node: ir.Node) -> Rows | None:
    """What a Slice of one axis takes; None for another operator."""
    if node.op_type != "Slice" or node.domain not in STANDARD or len(node.inputs) < 3:
        return None
    dims, out = static_dims(node.inputs[0]), static_dims(node.outputs[0])
    changed = [axis for axis, pair in enumerate(zip(dims, out, strict=False)) if len(set(pair)) > 1]
    if len(dims) != len(out) or len(changed) != 1 or min(out, default=0) < 1:
        return None
    starts, axes, steps = (_integers(node, index) for index in (1, 3, 4))
    axes = axes or list(range(len(starts)))
    (axis,) = changed
    numbers = [axis_ % len(dims) for axis_ in axes]
    # Below zero they turn an axis around, which its size does not tell.
    if axis not in numbers or len(starts) != len(axes) or min(steps, default=1) < 1:
        return None
    place = numbers.index(axis)
    start, step = starts[place], steps[place] if steps else 1
    start += dims[axis] if start < 0 else 0
    if not 0 <= start < dims[axis]:
        return None
    return Rows(axis, start, step, out[axis])


def _integers(node: ir.Node, index: int) -> list[int]:
    value = node.inputs[index] if index < len(node.inputs) else None
    constant = None if value is None else constant_of(value)
    return [] if constant is None else [int(number) for number in constant.reshape(-1)]


# -- what rows of a result need of an operator's inputs -----------------------------------------


def _of_itself(node: ir.Node, rows: Rows) -> Needs | None:
    """Each element follows from that of the first input in its place."""
    return [rows, *([None] * (len(node.inputs) - 1))]


def _elementwise(node: ir.Node, rows: Rows) -> Needs | None:
    """Each element follows from those of all inputs in its place, of which some are broadcast."""
    rank = len(static_dims(node.outputs[0]))
    return [_behind_broadcast(value, rank, rows) for value in node.inputs]


def _behind_broadcast(value: ir.Value | None, rank: int, rows: Rows) -> Rows | None:
    dims = static_dims(value)
    axis = rows.axis - (rank - len(dims))
    return None if axis < 0 or dims[axis] == 1 else replace(rows, axis=axis)


def _product(node: ir.Node, rows: Rows) -> Needs | None:
    rank = len(static_dims(node.outputs[0]))
    ranks = [len(static_dims(value)) for value in node.inputs]
    if min(ranks) < 2 or rows.axis == rank - 1:
        return None
    left, right = (_behind_broadcast(value, rank, rows) for value in node.inputs)
    return [left, None if rows.axis == rank - 2 else right]


def _softmax(node: ir.Node, rows: Rows) -> Needs | None:
    first = node.attributes.get_int("axis", 1) % len(static_dims(node.outputs[0]))
    return [rows] if rows.axis < first else None


def _reduction(node: ir.Node, rows: Rows) -> Needs | None:
    rank = len(static_dims(node.inputs[0]))
    if len(node.inputs) != 1:
        return None
    reduced = [axis % rank for axis in node.attributes.get_ints("axes", range(rank))]
    if node.attributes.get_int("keepdims", 1):
        return [rows] if rows.axis not in reduced else None
    left = [axis for axis in range(rank) if axis not in reduced]
    return [replace(rows, axis=left[rows.axis])]


def _norm(node: ir.Node, rows: Rows) -> Needs | None:
    return [rows, None, None] if rows.axis == 0 else None


def _transpose(node: ir.Node, rows: Rows) -> Needs | None:
    axis = permutation(node, len(static_dims(node.outputs[0])))[rows.axis]
    return [replace(rows, axis=axis)]


def _reshape(node: ir.Node, rows: Rows) -> Needs | None:
    operand_rows = through_reshape(static_dims(node.inputs[0]), static_dims(node.outputs[0]), rows)
    return None if operand_rows is None else [operand_rows, None]


def through_reshape(dims: tuple[int, ...], reshaped: tuple[int, ...], rows: Rows) -> Rows | None:
    """The rows of an array of `dims` that become `rows` of it reshaped; None where none do."""
    if not dims or min((*dims, *reshaped)) < 1:
        return None
    before = [math.prod(dims[:axis]) for axis in range(len(dims) + 1)]
    after = [math.prod(reshaped[:axis]) for axis in range(len(reshaped) + 1)]
    common = set(before) & set(after)
    low = max(number for number in common if number <= after[rows.axis])
    high = min(number for number in common if number >= after[rows.axis + 1])
    # The axes that become each other, those of one element left out.
    axes = [a for a, d in enumerate(dims) if before[a] >= low and before[a + 1] <= high and d > 1]
    others = [
        a for a, d in enumerate(reshaped) if after[a] >= low and after[a + 1] <= high and d > 1
    ]
    sizes, new = [dims[a] for a in axes], [reshaped[a] for a in others]
    if high // low > _MOST_ROWS or rows.axis not in others:
        return None
    chosen = [rows.places if a == rows.axis else np.arange(reshaped[a]) for a in others]
    flat = np.ravel_multi_index(np.meshgrid(*chosen, indexing="ij"), new).reshape(-1)
    places = [np.unique(own) for own in np.unravel_index(flat, sizes)]
    cut = [i for i, own in enumerate(places) if len(own) != sizes[i]]
    # Rows of one axis and all of the others, and no fewer than that.
    if len(cut) != 1 or math.prod(len(own) for own in places) != len(flat):
        return None
    own = places[cut[0]]
    steps = np.unique(np.diff(own))
    if len(steps) > 1:
        return None
    return Rows(axes[cut[0]], int(own[0]), int(steps[0]) if len(steps) else 1, len(own))


def _rules() -> Mapping[tuple[str, str], _Rule]:
    rules: dict[str, _Rule] = {"Dropout": _of_itself, "Identity": _of_itself}
    rules |= dict.fromkeys("Add Sub Mul Div Pow Max Min Where".split(), _elementwise)
    reductions = "ReduceMean ReduceSum ReduceMax ReduceMin ReduceSumSquare ReduceL2 ReduceLogSumExp"
    rules |= dict.fromkeys(reductions.split(), _reduction)
    rules |= {"MatMul": _product, "Softmax": _softmax, "Transpose": _transpose}
    rules["Reshape"] = _reshape
    standard = {(domain, name): rule for domain in STANDARD for name, rule in rules.items()}
    return standard | {("ai.graphcore", "GroupNormalization"): _norm}


_RULES = _rules()


def _rule(node: ir.Node) -> _Rule | None:
    schema = schema_of_node(node)
    if schema is not None and schema.elementwise and len(node.inputs) == 1:
        return _of_itself
    return _RULES.get((node.domain, node.op_type))


# -- the copy -----------------------------------------------------------------------------------


def _rewritten(graph: ir.Graph, search: _Search) -> ir.Graph:
    copy = graph.clone()
    mine = dict(zip(graph, copy, strict=True))
    makers = {value for node in search.narrowed for value in node.outputs[:1]}
    made: dict[tuple[str, Rows], ir.Value] = {}
    for node in graph:
        own = mine[node]
        if node in search.slices and node.inputs[0] in makers:
            own.op_type = "Identity"
            own.resize_inputs(1)
        for index, rows in enumerate(search.narrowed.get(node, ())):
            source, value = node.inputs[index], own.inputs[index]
            if rows is None or source in makers:
                continue
            assert value is not None
            key = str(value.name), rows
            if key not in made:
                made[key] = _sliced(copy, own, value, rows)
            own.replace_input_with(index, made[key])
        if node in search.narrowed:
            rows, result = search.rows[node], own.outputs[0]
            dims = list(static_dims(node.outputs[0]))
            dims[rows.axis] = rows.count
            result.shape = ir.Shape(dims)
            if node.op_type == "Reshape":
                shape = _constant(copy, own, f"{result.name}/shape", dims)
                own.replace_input_with(1, shape)
    return copy


def _sliced(graph: ir.Graph, reader: ir.Node, value: ir.Value, rows: Rows) -> ir.Value:
    """Rows of a tensor, by a Slice in front of the node that reads them."""
    dims = list(static_dims(value))
    dims[rows.axis] = rows.count
    name = f"{value.name}/rows{rows.axis}.{rows.start}.{rows.step}.{rows.count}"
    end = rows.start + rows.step * (rows.count - 1) + 1
    numbers = {"starts": rows.start, "ends": end, "axes": rows.axis, "steps": rows.step}
    constants = [_constant(graph, reader, f"{name}/{n}", [i]) for n, i in numbers.items()]
    part = ir.Value(name=name, shape=ir.Shape(dims), type=value.type)
    _put(graph, reader, ir.Node("", "Slice", [value, *constants], outputs=[part], name=name))
    return part


def _constant(graph: ir.Graph, reader: ir.Node, name: str, numbers: Sequence[int]) -> ir.Value:
    tensor = ir.tensor(np.asarray(numbers, np.int64), name=name)
    value = ir.Value(
        name=name,
        shape=ir.Shape([len(numbers)]),
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )
    attributes = [ir.AttrTensor("value", tensor)]
    _put(graph, reader, ir.Node("", "Constant", [], attributes, outputs=[value], name=name))
    return value


def _put(graph: ir.Graph, reader: ir.Node, node: ir.Node) -> None:
    node.meta[scope_names.KEY] = reader.meta[scope_names.KEY]
    graph.insert_before(reader, node)
