"""What a rule of standard operators is given: the node that it stands in for, and ways to emit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from paddle_ipu.popart.program import dims_of

LATER = "onnx.later"
"""Domain of operators that ONNX has, or has so, only since an operator set after `OPSET`."""

AttributeValue = (
    int | float | str | Sequence[int] | Sequence[float] | Sequence[str] | ir.TensorProtocol
    | ir.Graph | None
)  # fmt: skip
"""Of an ONNX attribute; None for one that is not written."""


class Emitter:
    """Makes standard nodes that stand in for one node.

    Attributes:
        node: the one.
        made: the new nodes, in order.

    Args:
        node: the one.
        name: what names of new tensors begin with; by default that of the first result.
    """

    def __init__(self, node: ir.Node, name: str = "") -> None:
        self.node = node
        self.made: list[ir.Node] = []
        first = node.outputs[0]
        self._dtype = first.dtype or ir.DataType.FLOAT
        self._name = name or str(first.name)

    # -- the node ------------------------------------------------------------------------------

    @property
    def x(self) -> ir.Value:
        """The first input."""
        return self.input(0)

    def input(self, index: int) -> ir.Value:
        """An input; it is there."""
        value = self.node.inputs[index]
        assert value is not None
        return value

    def optional(self, index: int) -> ir.Value | None:
        """An input, None where there is none."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        attribute = self.node.attributes.get(name)
        return default if attribute is None else attribute.value

    def axis(self, default: int = -1, of: int = 0) -> int:
        """The attribute ``axis``, counted from the front of an input."""
        return int(self.attribute("axis", default)) % len(dims_of(self.input(of)))

    def is_used(self, index: int) -> bool:
        """Whether an output is read, or is an output of the graph."""
        value = self.node.outputs[index]
        return bool(value.uses()) or value.is_graph_output()

    # -- what is emitted -----------------------------------------------------------------------

    def constant(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> ir.Value:
        """A constant, of the type of the first result unless told otherwise."""
        kind = self._dtype.numpy() if dtype is None else dtype
        return self("Constant", [], value=ir.tensor(np.asarray(array, kind)))

    def int64s(self, *numbers: int) -> ir.Value:
        """A constant list, such as a shape."""
        return self.constant(numbers, np.int64)

    def __call__(
        self, op_type: str, inputs: Sequence[ir.Value | None], **attributes: AttributeValue
    ) -> ir.Value:
        """The result of a standard operator."""
        return self._emit("", op_type, inputs, 1, attributes)[0]

    def several(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        outputs: int,
        **attributes: AttributeValue,
    ) -> Sequence[ir.Value]:
        """The results of a standard operator that has more than one."""
        return self._emit("", op_type, inputs, outputs, attributes)

    def later(
        self, op_type: str, inputs: Sequence[ir.Value | None], **attributes: AttributeValue
    ) -> ir.Value:
        """The result of an operator, or a form of it, of a later operator set."""
        return self._emit(LATER, op_type, inputs, 1, attributes)[0]

    def _emit(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        outputs: int,
        attributes: Mapping[str, AttributeValue],
    ) -> Sequence[ir.Value]:
        given = {name: value for name, value in attributes.items() if value is not None}
        node = ir.node(op_type, inputs, given, domain=domain, num_outputs=outputs)
        node.name = f"{self._name}/standard:{len(self.made)}"
        for at, value in enumerate(node.outputs):
            value.name = node.name if at == 0 else f"{node.name}:{at}"
        self.made.append(node)
        return node.outputs

    def cast(self, value: ir.Value, dtype: ir.DataType | type[np.generic]) -> ir.Value:
        """A tensor in another type: NumPy's, or ONNX's."""
        if not isinstance(dtype, ir.DataType):
            dtype = ir.DataType.from_numpy(np.dtype(dtype))
        return self("Cast", [value], to=int(dtype))

    def as_result(self, value: ir.Value, index: int = 0) -> ir.Value:
        """A tensor cast to the type of an output of the node."""
        return self.cast(value, self.node.outputs[index].dtype or self._dtype)

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        return self("Reshape", [value, self.int64s(*shape)])

    def sum(self, value: ir.Value, axis: int, keepdims: int = 0) -> ir.Value:
        return self("ReduceSum", [value], axes=[axis], keepdims=keepdims)

    def where(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        return self("Where", [condition, yes, no])

    def flipped(self, condition: ir.Value) -> ir.Value:
        """The opposite of a truth value."""
        return self("Not", [condition])


Rule = Callable[[Emitter], Sequence[ir.Value] | None]
"""Emits standard operators and gives what takes the place of the node's outputs; None: it stays."""
