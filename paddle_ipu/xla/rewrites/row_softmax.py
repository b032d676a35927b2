"""Softmax over rows that lie behind each other, found in a graph to be done by a kernel of its own.

XLA takes four passes and may wake threads between them. The kernel of
``kernels/avx512/softmax.cc`` does all of a row while it is near the core.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.softmax import SoftmaxSpec
from paddle_ipu.xla.lowerings import row_softmax
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.node_values import STANDARD, is_float32, static_dims

LEAST_COLUMNS = 16
"""Rows of fewer are XLA's: they do not fill a vector of AVX-512."""


@dataclass(frozen=True, slots=True)
class RowSoftmax:
    """A Softmax by its result.

    Attributes:
        product: its result.
        spec: the work.
    """

    product: str
    spec: SoftmaxSpec

    @property
    def result(self) -> str:
        """Its result, as those of the other rewritings are called."""
        return self.product

    @property
    def dropped(self) -> frozenset[str]:
        """Nothing: what it reads stays as it is."""
        return frozenset()

    def lowered(self, node: LoweredNode) -> LoweredNode:
        """The Softmax's node, done by the kernel."""
        attributes: Mapping[str, object] = {**node.attributes, "spec": self.spec}
        return replace(node, rule=row_softmax.softmax, attributes=attributes)


def find(graph: ir.Graph, taken: Collection[str]) -> list[RowSoftmax]:
    """The Softmaxes of a graph that the kernel takes; none where it cannot be used.

    Args:
        graph: the PopART graph.
        taken: results of operators that are done with others already.
    """
    if not library.has_attention():
        return []
    found = (_softmax(node) for node in graph if _is_softmax(node, taken))
    return [softmax for softmax in found if softmax is not None]


def _is_softmax(node: ir.Node, taken: Collection[str]) -> bool:
    return (
        node.op_type == "Softmax"
        and node.domain in STANDARD
        and node.outputs[0].name not in taken
        and is_float32(node.outputs[0])
    )


def _softmax(node: ir.Node) -> RowSoftmax | None:
    dims = static_dims(node.inputs[0])
    attribute = node.attributes.get("axis")
    axis = 1 if attribute is None else attribute.as_int()
    if not dims or not -len(dims) <= axis < len(dims):
        return None
    # The axis and all behind it are one, by opset 11.
    start = axis % len(dims)
    rows, columns = math.prod(dims[:start]), math.prod(dims[start:])
    if columns < LEAST_COLUMNS or not rows:
        return None
    return RowSoftmax(
        product=str(node.outputs[0].name),
        spec=SoftmaxSpec(rows=rows, columns=columns, threads=library.threads()),
    )
