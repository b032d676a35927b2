"""What a shape inference rule sees of the operator it infers, and what families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string

Constant = np.ndarray[Any, Any]
Dims = tuple[int, ...]


@dataclass(slots=True)
class InferenceContext:
    """One operator at the time its outputs are typed.

    Attributes:
        identifier: ``ai.onnx.MatMul:9``.
        inputs: type of each input, None for an omitted one.
        attributes: plain attribute values by ONNX name.
        num_outputs: how many outputs are asked for.
        input_ids: tensor ids of the inputs, empty for an omitted one.
        output_ids: tensor ids of the outputs.
        value_of: number of an input -> its value, None where that is computed at run time.
        replicas: of the session, for rules that depend on them.
    """

    identifier: str
    inputs: Sequence[TensorInfo | None]
    attributes: Mapping[str, Any]
    num_outputs: int
    input_ids: Sequence[str]
    output_ids: Sequence[str]
    value_of: Callable[[int], Constant | None]
    replicas: int = 1

    @property
    def op(self) -> str:
        """The operator as PopART prints it: ``Op(ai.onnx.Add:7, inputs=[a, b], outputs=[c])``."""
        inputs, outputs = ", ".join(self.input_ids), ", ".join(self.output_ids)
        return f"Op({self.identifier}, inputs=[{inputs}], outputs=[{outputs}])"

    def error(self, message: str) -> popart_exception:
        """An exception about this operator, its name first."""
        return popart_exception(f"{self.op} {message}")

    def told(self, message: str, more: str) -> popart_exception:
        """PopART's message, and then what else there is to say of this operator."""
        return popart_exception(f"{message} {self.op} {more}")

    def input_id(self, index: int) -> str:
        """The tensor id of an input."""
        return self.input_ids[index]

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def info(self, index: int) -> TensorInfo:
        """Type of an input that must be given."""
        info = self.inputs[index] if index < len(self.inputs) else None
        if info is None:
            raise self.error(f"input {index} is required")
        return info

    def constant(self, index: int, what: str) -> Constant:
        """Value of an input that must be known when the graph is built."""
        value = self.value_of(index)
        if value is None:
            raise self.error(
                f"the '{what}' Tensor '{self.input_id(index)}' must be of type Constant. It is "
                "computed at run time; make it a Constant or an initializer"
            )
        return value

    def constant_ints(self, index: int, what: str) -> list[int]:
        """Like `constant`, as a list of integers."""
        return [int(item) for item in np.atleast_1d(self.constant(index, what)).tolist()]

    def shaping_ints(self, index: int, what: str) -> list[int]:
        """Like `constant_ints`, of an input that the shape of the output depends on."""
        if self.value_of(index) is None:
            error = popart_exception(
                f"Need the value of the {self.identifier} input '{what}' to determine the output "
                "shape, but was unable because [Tensor::getDataViaGraphTraversal] Could not work "
                f"out tensor data for {self.input_id(index)}."
            )
            error.add_note(
                f"{self.op}: '{self.input_id(index)}' is computed at run time; make it a Constant "
                "or an initializer."
            )
            raise error
        return self.constant_ints(index, what)

    def axis(self, axis: int, rank: int, *, inclusive: bool = False) -> int:
        """`axis` counted from the front; `inclusive` also allows `rank` itself."""
        last = rank if inclusive else rank - 1
        if not -rank <= axis <= last:
            raise self.error(
                f"axis {axis} is out of range for a tensor of rank {rank}: expected {-rank}..{last}"
            )
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """`axes` counted from the front, in the given order; repeated ones raise."""
        positive = [self.axis(axis, rank) for axis in axes]
        if len(set(positive)) != len(positive):
            raise self.error(f"axes {list(axes)} name a dimension twice")
        return positive

    def same_dtype(self, *indices: int) -> ir.DataType:
        """The element type that the inputs `indices` must share."""
        first = self.info(indices[0])
        for index in indices[1:]:
            info = self.inputs[index] if index < len(self.inputs) else None
            if info is not None and info.dtype != first.dtype:
                raise self.error(self.of_two_types(indices[0], index))
        return first.dtype

    def of_two_types(self, one: int, other: int) -> str:
        """What is wrong with inputs whose element types differ."""
        return (
            f"incompatible types: input {one} '{self.input_id(one)}' is {self.info(one)} and input "
            f"{other} '{self.input_id(other)}' is {self.info(other)}. Cast one of them"
        )

    def broadcast(self, left: Dims, right: Dims) -> Dims:
        """NumPy's broadcasting of two shapes."""
        if left == right:
            return left
        size = max(len(left), len(right))
        out = []
        for a, b in zip(
            (1,) * (size - len(left)) + left, (1,) * (size - len(right)) + right, strict=True
        ):
            if a == b or b == 1:
                out.append(a)
            elif a == 1:
                out.append(b)
            else:
                raise popart_exception(
                    f"np broadcasting failed on '{self.op}', frames {list(left)} and "
                    f"{list(right)} are not aligned"
                )
        return tuple(out)

    def expect_rank(self, index: int, minimum: int, maximum: int | None = None) -> TensorInfo:
        """Type of an input whose rank must lie in ``minimum..maximum``."""
        info = self.info(index)
        if len(info.dims) < minimum or (maximum is not None and len(info.dims) > maximum):
            wanted = f"{minimum}" if minimum == maximum else f"{minimum}..{maximum or 'inf'}"
            raise self.error(
                f"input {index} '{self.input_id(index)}' has shape {shape_string(info.dims)} of "
                f"rank {len(info.dims)}, expected rank {wanted}"
            )
        return info


Infer = Callable[[InferenceContext], Sequence[TensorInfo | None]]
"""Types the outputs of an operator; None where one cannot be known."""


def same_as_first(ctx: InferenceContext) -> list[TensorInfo]:
    """One output with the type of the first input."""
    return [ctx.info(0)]
