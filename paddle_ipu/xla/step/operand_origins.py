"""What the tensors of a graph were made of, as far as the lowerings of their readers use it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paddle_ipu.xla.lowerings.image_layouts import ImageLayouts
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Lookup, Operand
from paddle_ipu.xla.lowerings.residuals import Rematerialization


@dataclass(slots=True)
class OperandOrigins:
    """Origins by tensor, recorded while a graph is evaluated.

    Attributes:
        hidden: tensors whose origin is not recorded: what is added to them, to differentiate with
            respect to it, is no part of the origin.
        reshaped: result of a Reshape -> its operand.
        transposed: result of a Transpose of a matrix -> its operand.
        logits: result of a Softmax over the last axis -> its operand.
        rematerializations: tensor -> how backward makes it again.
        lookups: what Gathers have read, by the id of their result.
        images: which arrays are there in channels-last layout, too.
        rebound: weight -> the array for its later readers, since the last :meth:`pop_rebound`.
    """

    hidden: Collection[str] = ()
    reshaped: dict[str, Operand] = field(default_factory=dict)
    transposed: dict[str, Operand] = field(default_factory=dict)
    logits: dict[str, Operand] = field(default_factory=dict)
    rematerializations: dict[str, Rematerialization] = field(default_factory=dict)
    lookups: dict[int, Lookup] = field(default_factory=dict)
    images: ImageLayouts = field(default_factory=ImageLayouts)
    rebound: dict[str, Array] = field(default_factory=dict)

    def copy(self) -> OperandOrigins:
        """Origins for a segment: what is recorded there is not seen outside of it."""
        return replace(
            self,
            reshaped=dict(self.reshaped),
            transposed=dict(self.transposed),
            logits=dict(self.logits),
            rematerializations=dict(self.rematerializations),
            rebound={},
        )

    def record(
        self, node: LoweredNode, operands: Sequence[Operand], results: Sequence[Array]
    ) -> None:
        """Records the origins of a node's results."""
        for name, result in zip(node.outputs, results, strict=False):
            if name in self.hidden:
                self.rematerializations.pop(name, None)
            elif node.op_type == "Reshape":
                self.reshaped[name] = operands[0]
                if (remake := self.rematerializations.get(str(node.inputs[0]))) is not None:
                    self.rematerializations[name] = remake
            elif _transposes_matrix(node):
                self.transposed[name] = operands[0]
            elif _is_softmax_of_last_axis(node, result):
                self.logits[name] = operands[0]

    def remember(
        self, node: LoweredNode, made: Mapping[int, Rematerialization], half: Collection[str]
    ) -> None:
        """Records how backward makes results again, by their number; none that are half."""
        for index, remake in made.items():
            if node.outputs[index] not in half:
                self.rematerializations[node.outputs[index]] = remake

    def rebind(self, node: LoweredNode, arrays: Mapping[int, Array]) -> None:
        """Records arrays for the later readers of a node's operands, by number of the operand."""
        self.rebound.update((str(node.inputs[index]), array) for index, array in arrays.items())

    def pop_rebound(self) -> dict[str, Array]:
        """Weight -> the array for its later readers, recorded since the last call."""
        rebound, self.rebound = self.rebound, {}
        return rebound


def _transposes_matrix(node: LoweredNode) -> bool:
    return node.op_type == "Transpose" and list(node.attributes.get("perm", ())) == [1, 0]


def _is_softmax_of_last_axis(node: LoweredNode, result: Array) -> bool:
    return node.op_type == "Softmax" and node.attributes.get("axis", 1) in (-1, result.ndim - 1)
