"""Which INT64 tensors of a Paddle program are computed in 64 bits, and which fit 32 anyway.

A session that is used directly narrows all of them, as PopART's devices do. In a Paddle program
INT64 has 64 bits, but for two kinds of tensors that give the same numbers in 32: those whose
numbers are bounded, such as places in a tensor, and those that only pick elements, such as ids and
labels, of which a larger number is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.program import tensors_of

_INT32 = np.iinfo(np.int32)
_WIDE = (ir.DataType.INT64, ir.DataType.UINT64)
_SHORT = (
    ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8, ir.DataType.UINT16,
)  # fmt: skip
_NARROW = (*_SHORT, ir.DataType.INT32)

SATURATES = "__saturate"
"""An attribute of a Cast whose input is indices: a number beyond becomes the nearest there is.

ONNX lets a node have attributes of any name that begins like this."""

_INDICES: dict[str, tuple[int, ...]] = {
    "Gather": (1,),
    "Scatter": (1,),
    "ScatterElements": (1,),
    "OneHot": (0,),
    "ScatterReduce": (1,),
    "GroupedGather": (1,),
    "DynamicSlice": (1,),
    "DynamicUpdate": (1,),
    "DynamicZero": (1,),
    "DynamicAdd": (1,),
    "SequenceSlice": (2, 3, 4),
    "Nll": (1,),
    "LogNll": (1,),
    "GatherNd": (1,),
    "TakeAlongAxis": (1,),
    "PutAlongAxis": (1,),
    "DequantGather": (1,),
    "ClassCenterSample": (0,),
    "LuUnpack": (1,),
    "ViterbiDecode": (2,),
    "CrfDecode": (2,),
    "EditDistance": (2, 3),
    "CtcAlign": (1,),
    "Ctc": (1, 2, 3),
    "Rnnt": (1, 2, 3),
    "RNN": (4,),
    "LSTM": (4,),
    "GRU": (4,),
    "Recurrent": (4,),
    "RoiAlign": (2,),
    "RoiPool": (2,),
    "PsRoiPool": (2,),
    "YoloLoss": (2,),
    "Unpool": (1,),
}
"""Inputs that say which elements are meant, or how many: a number beyond 32 bits is out of every
range."""

_CHOICES: dict[str, tuple[int, ...] | None] = {
    "Identity": (0,),
    "Detach": (0,),
    "Nop": (0,),
    "Reshape": (0,),
    "Flatten": (0,),
    "Squeeze": (0,),
    "Unsqueeze": (0,),
    "Transpose": (0,),
    "Slice": (0,),
    "Split": (0,),
    "Expand": (0,),
    "Tile": (0,),
    "Gather": (0,),
    "Where": (1, 2),
    "Concat": None,
    "Max": None,
    "Min": None,
}
"""Operators whose results are elements of these inputs, of all where there is None."""

_COMPARISONS = frozenset({"Equal", "Less", "Greater"})

_PLACES: dict[str, tuple[int, ...]] = {
    "ArgMax": (0,),
    "ArgMin": (0,),
    "TopK": (1,),
    "Sort": (1,),
    "Shape": (0,),
}
"""Results that are places in a tensor, or sizes of one."""


def index_inputs(node: ir.Node) -> tuple[int, ...]:
    """The inputs of an operator that only say which elements are meant."""
    if node.op_type == "Cast":
        return (0,) if SATURATES in node.attributes else ()
    return _INDICES.get(node.op_type, ())


def gives_places(node: ir.Node) -> bool:
    """Whether the integers that an operator gives are places, whatever it reads."""
    return node.op_type in _PLACES


def computed_in_64_bits(
    graph: ir.Graph, written: Collection[str] = (), fetched: Collection[str] = ()
) -> frozenset[str]:
    """Ids of the tensors, those of subgraphs too, that need 64 bits.

    Args:
        graph: of a Paddle program, typed.
        written: initializers that the graph changes, and what they become.
        fetched: tensors that a run gives.
    """
    return frozenset(_Widths(graph, frozenset(written), frozenset(fetched)).wide())


class _Widths:
    def __init__(self, graph: ir.Graph, written: frozenset[str], fetched: frozenset[str]) -> None:
        self._graph = graph
        self._written = written
        self._kept = written | fetched
        self._bounded: dict[ir.Value, bool] = {}
        self._picking: dict[ir.Value, tuple[bool, bool]] = {}
        self._narrow: dict[ir.Value, bool] = {}
        self._small: dict[ir.Value, bool] = {}

    def wide(self) -> Iterable[str]:
        # In this order each question finds those of its neighbours answered, however long a chain.
        for node in reversed(self._graph):
            for value in node.outputs:
                self._uses(value)
        for graph in (self._graph, *self._graph.subgraphs()):
            for name, value in tensors_of(graph).items():
                if _is_integer(value):
                    self._is_small(value)
                is_read = bool(value.uses()) or value.is_graph_output() or name in self._kept
                # A feed that nothing reads may be any number.
                is_read = is_read or (graph is self._graph and value.is_graph_input())
                outer = graph is self._graph
                if value.dtype in _WIDE and is_read and not self._is_narrow(value, outer):
                    yield name

    def _is_narrow(self, value: ir.Value, outer: bool) -> bool:
        if str(value.name) in self._written:
            return False
        if self._is_bounded(value):
            return True
        return outer and self._comes_narrow(value)

    def _is_bounded(self, value: ir.Value) -> bool:
        """Whether all its numbers fit 32 bits, whatever is fed."""
        if value not in self._bounded:
            # What a loop carries round comes back here.
            self._bounded[value] = False
            self._bounded[value] = self._find_bounded(value)
        return self._bounded[value]

    def _find_bounded(self, value: ir.Value) -> bool:
        if value.dtype in _NARROW:
            return True
        node = value.producer()
        if node is None:
            return False
        constant = _constant(value)
        if constant is not None:
            return not constant.size or bool(
                _INT32.min <= constant.min() and constant.max() <= _INT32.max
            )
        if node.op_type == "Cast":
            source = node.inputs[0]
            return source is not None and source.dtype is not None and (
                source.dtype in _NARROW or (source.dtype in _WIDE and self._is_bounded(source))
            )  # fmt: skip
        if value.index() in _PLACES.get(node.op_type, ()):
            return True
        sources = _chosen_from(node)
        return bool(sources) and all(self._is_bounded(source) for source in sources)

    def _comes_narrow(self, value: ir.Value) -> bool:
        """Whether 32 bits are enough for every use, and all it is chosen from can be had in them.

        A feed only where it picks elements: a number beyond is an error then.
        """
        if value not in self._narrow:
            self._narrow[value] = self._find_narrow(value)
        return self._narrow[value]

    def _find_narrow(self, value: ir.Value) -> bool:
        only, picks = self._uses(value)
        node = value.producer()
        if node is None:
            return only and picks and (not value.is_initializer() or self._fits(value))
        sources = _chosen_from(node)
        return (
            only
            and bool(sources)
            and all(self._is_bounded(source) or self._comes_narrow(source) for source in sources)
        )

    def _fits(self, value: ir.Value) -> bool:
        array = value.const_value
        if array is None or str(value.name) in self._written:
            return False
        numbers = array.numpy()
        return not numbers.size or bool(_INT32.min <= numbers.min() and numbers.max() <= _INT32.max)

    def _uses(self, value: ir.Value) -> tuple[bool, bool]:
        """(whether every use is as good with 32 bits, whether one of them is as an index)."""
        if value not in self._picking:
            self._picking[value] = (False, False)
            self._picking[value] = self._find_uses(value)
        return self._picking[value]

    def _find_uses(self, value: ir.Value) -> tuple[bool, bool]:
        if value.is_graph_output() or str(value.name) in self._kept:
            return False, False
        picks = False
        for node, index in value.uses():
            if node.graph is not self._graph:
                return False, False
            if index in index_inputs(node):
                picks = True
                continue
            if node.op_type in _COMPARISONS and self._is_small(node.inputs[1 - index]):
                continue
            if value not in _chosen_from(node) or len(node.outputs) == 0:
                return False, False
            for output in node.outputs:
                only, then = self._uses(output)
                if not only and (output.uses() or output.is_graph_output()):
                    return False, False
                picks |= then
        return True, picks

    def _is_small(self, value: ir.Value | None) -> bool:
        """Whether its numbers are known to stay clear of the ends of 32 bits."""
        if value is None:
            return False
        if value not in self._small:
            self._small[value] = self._find_small(value)
        return self._small[value]

    def _find_small(self, value: ir.Value) -> bool:
        node = value.producer()
        if node is None:
            return False
        constant = _constant(value)
        if constant is not None:
            return not constant.size or bool(
                _INT32.min < constant.min() and constant.max() < _INT32.max
            )
        if value.index() in _PLACES.get(node.op_type, ()):
            return True
        if node.op_type == "Cast":
            source = node.inputs[0]
            is_shorter = source is not None and source.dtype in _SHORT
            return is_shorter or (_is_integer(source) and self._is_small(source))
        sources = _chosen_from(node)
        return bool(sources) and all(self._is_small(source) for source in sources)


def _is_integer(value: ir.Value | None) -> bool:
    return value is not None and value.dtype in (ir.DataType.INT32, ir.DataType.INT64)


def _constant(value: ir.Value) -> np.ndarray[Any, Any] | None:
    """The numbers of a Constant of integers; those of an initializer may change."""
    node = value.producer()
    if node is None or node.op_type != "Constant" or node.domain:
        return None
    constant: np.ndarray[Any, Any] = node.attributes["value"].as_tensor().numpy()
    return constant if constant.dtype.kind in "iu" else None


def _chosen_from(node: ir.Node) -> list[ir.Value]:
    """The inputs whose elements an operator's results are; none for other operators."""
    if node.op_type not in _CHOICES:
        return []
    places = _CHOICES[node.op_type]
    operands = node.inputs if places is None else [node.inputs[at] for at in places]
    return [value for value in operands if value is not None]
