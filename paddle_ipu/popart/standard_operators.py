"""Rewrites operators of Graphcore's domain with those of ONNX, so that other runtimes run a model.

Forward only: what an operator means for gradients is lost. Operators that have no rule here stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.program import dims_of

GRAPHCORE = "ai.graphcore"
STANDARD = ("", "ai.onnx")

OPSET = 11
"""Of the operators that are put in; what the builder writes them with."""


class _Emitter:
    """Makes standard nodes that stand in for one node.

    Attributes:
        node: the one.
        made: the new nodes, in order.
    """

    def __init__(self, node: ir.Node) -> None:
        self.node = node
        self.made: list[ir.Node] = []
        first = node.outputs[0]
        self._dtype = first.dtype or ir.DataType.FLOAT
        self._name = str(first.name)

    @property
    def x(self) -> ir.Value:
        """The first input."""
        return self.input(0)

    def input(self, index: int) -> ir.Value:
        """An input; it is there."""
        value = self.node.inputs[index]
        assert value is not None
        return value

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        found = self.node.attributes.get(name)
        return default if found is None else found.value

    def constant(self, array: Any, dtype: Any = None) -> ir.Value:
        """A constant, of the type of the first result unless told otherwise."""
        kind = self._dtype.numpy() if dtype is None else dtype
        tensor = ir.tensor(np.asarray(array, kind))
        return self("Constant", [], value=tensor)

    def __call__(self, op_type: str, inputs: Sequence[ir.Value], **attributes: Any) -> ir.Value:
        """The result of a standard operator."""
        node = ir.node(op_type, inputs=inputs, attributes=attributes)
        number = len(self.made)
        node.name = f"{self._name}/standard:{number}"
        node.outputs[0].name = f"{self._name}/standard:{number}"
        self.made.append(node)
        return node.outputs[0]


def _gelu(emit: _Emitter, inner: ir.Value) -> ir.Value:
    """Half of x times one more than `inner`."""
    more = emit("Add", [inner, emit.constant(1.0)])
    return emit("Mul", [emit("Mul", [emit.x, emit.constant(0.5)]), more])


def _gelu_erf(emit: _Emitter) -> Sequence[ir.Value]:
    scaled = emit("Mul", [emit.x, emit.constant(math.sqrt(0.5))])
    return [_gelu(emit, emit("Erf", [scaled]))]


def _gelu_tanh(emit: _Emitter) -> Sequence[ir.Value]:
    x = emit.x
    cube = emit("Mul", [emit("Mul", [x, x]), x])
    inner = emit("Add", [x, emit("Mul", [cube, emit.constant(0.044715)])])
    scaled = emit("Mul", [inner, emit.constant(math.sqrt(2 / math.pi))])
    return [_gelu(emit, emit("Tanh", [scaled]))]


def _group_normalization(emit: _Emitter) -> Sequence[ir.Value]:
    """(y, mean [N * groups], 1 / standard deviation [N * groups]) of x [N, C, ...]."""
    x, dims = emit.x, dims_of(emit.x)
    rows = dims[0] * int(emit.attribute("num_groups"))
    as_rows = emit.constant([rows, math.prod(dims) // max(rows, 1)], np.int64)
    grouped = emit("Reshape", [x, as_rows])
    mean = emit("ReduceMean", [grouped], axes=[1], keepdims=1)
    deviations = emit("Sub", [grouped, mean])
    variance = emit("ReduceMean", [emit("Mul", [deviations] * 2)], axes=[1], keepdims=1)
    padded = emit("Add", [variance, emit.constant(emit.attribute("epsilon", 1e-5))])
    inverse = emit("Reciprocal", [emit("Sqrt", [padded])])
    normal = emit("Reshape", [emit("Mul", [deviations, inverse]), emit.constant(dims, np.int64)])
    per_channel = emit.constant([1, dims[1], *[1] * (len(dims) - 2)], np.int64)
    scale, bias = (emit("Reshape", [emit.input(index), per_channel]) for index in (1, 2))
    y = emit("Add", [emit("Mul", [normal, scale]), bias])
    if not any(value.uses() for value in emit.node.outputs[1:]):
        return [y]
    flat = emit.constant([rows], np.int64)
    return [y, emit("Reshape", [mean, flat]), emit("Reshape", [inverse, flat])]


def _reverse(emit: _Emitter) -> Sequence[ir.Value]:
    axes = list(emit.attribute("dimensions"))
    bounds = [[-1] * len(axes), [np.iinfo(np.int64).min + 1] * len(axes), axes, [-1] * len(axes)]
    return [emit("Slice", [emit.x, *(emit.constant(row, np.int64) for row in bounds)])]


_Rule = Callable[[_Emitter], Sequence[ir.Value]]

_RULES: Mapping[str, _Rule] = {
    "Detach": lambda emit: [emit("Identity", [emit.x])],
    "Nop": lambda emit: [emit("Identity", [emit.x])],
    "Expm1": lambda emit: [emit("Sub", [emit("Exp", [emit.x]), emit.constant(1.0)])],
    "Gelu": _gelu_tanh,
    "GeluErf": _gelu_erf,
    "GroupNormalization": _group_normalization,
    "Log1p": lambda emit: [emit("Log", [emit("Add", [emit.x, emit.constant(1.0)])])],
    "Reverse": _reverse,
    "Round": lambda emit: [emit("Round", [emit.x])],
    "Scale": lambda emit: [emit("Mul", [emit.x, emit.constant(emit.attribute("scale"))])],
    "Swish": lambda emit: [emit("Mul", [emit.x, emit("Sigmoid", [emit.x])])],
}
"""Operators of Graphcore's domain -> what emits standard ones; domain ``ai.onnx``, opset 11."""


def rewrite(model: ir.Model) -> None:
    """Puts standard operators in the place of Graphcore's, in the graph and its subgraphs.

    Tensors keep their names. The shapes of what the operators take must be known.
    """
    _rewrite_in(model.graph)
    model.graph.opset_imports.setdefault("", OPSET)
    if not any(node.domain == GRAPHCORE for node in _all_nodes(model)):
        model.graph.opset_imports.pop(GRAPHCORE, None)


def _rewrite_in(graph: ir.Graph) -> None:
    for node in list(graph):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _rewrite_in(attribute.as_graph())
        rule = _RULES.get(node.op_type) if node.domain == GRAPHCORE else None
        if rule is None:
            continue
        emit = _Emitter(node)
        try:
            results = rule(emit)
        except popart_exception:
            # A shape is not known: the operator stays, and is named as what is not standard.
            continue
        graph.insert_before(node, emit.made)
        for old, new in zip(node.outputs, results, strict=False):
            _take_place(graph, old, new)
        graph.remove(node, safe=True)


def _take_place(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    new.type, new.shape = old.type, old.shape
    for use in list(old.uses()):
        use.node.replace_input_with(use.idx, new)
    for index, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[index] = new
    new.name, old.name = old.name, f"{old.name}/before"


def not_standard(model: ir.Model) -> list[str]:
    """The operators that are not ONNX's own, ``domain.Type``, sorted."""
    return sorted(
        {f"{node.domain}.{node.op_type}" for node in _all_nodes(model)
         if node.domain not in STANDARD}
    )  # fmt: skip


def _all_nodes(model: ir.Model) -> Sequence[ir.Node]:
    return list(ir.traversal.RecursiveGraphIterator(model.graph))
