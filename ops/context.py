"""What a translator works with: its node, the tensors emitted so far, and PopART's builder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported
from paddle_ipu.popart.integer_widths import SATURATES
from paddle_ipu.popart.operand_ranges import HIGHEST, OperandRange
from paddle_ipu.popart.opsets import DEBUG_ARGUMENTS
from paddle_ipu.popart.schema import schema_of

DEVICE_DTYPES: Mapping[str, str] = {"int64": "int32", "float64": "float32"}
"""Paddle dtypes that an IPU does not have -> the dtypes that replace them."""


def device_dtype(dtype: str, in_64_bits: bool = False) -> str:
    """The dtype that a Paddle dtype has on the device.

    Args:
        dtype: a Paddle dtype.
        in_64_bits: keep int64, as the IPU Model can; an IPU has 32-bit integers only.
    """
    if in_64_bits and dtype == "int64":
        return dtype
    return DEVICE_DTYPES.get(dtype, dtype)


_WIDTHS = (ir.DataType.INT32, ir.DataType.INT64)

Array = np.ndarray[Any, Any]

Element = str | Array
"""An element of an array of tensors: a tensor, or a constant of the program."""


class TranslationContext:
    """The state of one translation.

    Translators read `node`. They emit through `onnx` and `graphcore`, which have a method for each
    operator, and by :meth:`extension` what only ``ai.paddle_ipu`` has.

    Tensors are PopART ids (strings). A constant of the program becomes a tensor only when an
    operator reads it as one.

    Attributes:
        builder: PopART's builder of the program, or of the block that is emitted.
        in_64_bits: int64 stays INT64; else it becomes INT32.
        onnx: emits operators of ``ai.onnx``, opset 11, by the builder's method names.
        graphcore: emits operators of ``ai.graphcore``, likewise.
        node: the dialect node that is being translated.
        tensors: id of a dialect value -> its tensor.
        constants: id of a dialect value -> its value, known at compile time.
        arrays: id of a dialect value that is an array of tensors -> its elements.
        origins: tensor -> the node that emitted it.
        extensions: type of each ``ai.paddle_ipu`` operator -> the first node that emitted it.
        operand_ranges: first result of an operator -> the ranges that a run checks its inputs by.
        emit: translates nodes in a context, for instance those of a block.
        is_nested: True for the context of a block.
    """

    def __init__(self, builder: Any, popart: Any, in_64_bits: bool = False) -> None:
        self.builder = builder
        self.in_64_bits = in_64_bits
        self._popart = popart
        self.onnx = _Opset(builder.aiOnnxOpset11, self)
        self.graphcore = _Opset(builder.aiGraphcore, self)
        self.node: ir.Node = ir.Node(dialect.DOMAIN, "none", [])
        self.tensors: dict[int, str] = {}
        self.constants: dict[int, Array] = {}
        self.arrays: dict[int, tuple[Element, ...]] = {}
        self.origins: dict[str, ir.Node] = {}
        self.extensions: dict[str, ir.Node] = {}
        self.operand_ranges: dict[str, list[OperandRange]] = {}
        self._emitted: dict[tuple[object, ...], str] = {}
        self.emit: Callable[[TranslationContext, Iterable[ir.Node]], None] = _cannot_emit
        self.is_nested = False

    # -- blocks --------------------------------------------------------------------------------

    def nested(self, builder: Any) -> TranslationContext:
        """A context for a block of the node, with no tensors yet, which emits through `builder`."""
        inner = TranslationContext(builder, self._popart, self.in_64_bits)
        inner.node, inner.emit, inner.is_nested = self.node, self.emit, True
        inner.origins, inner.extensions = self.origins, self.extensions
        inner.operand_ranges = self.operand_ranges
        return inner

    # -- operands ------------------------------------------------------------------------------

    def values(self, name: str) -> list[ir.Value]:
        """The values of operand `name`: none if omitted, several for a list."""
        return [
            value
            for operand, value in dialect.operands(self.node)
            if operand == name and value is not None
        ]

    def has(self, name: str) -> bool:
        """True when operand `name` is given."""
        return bool(self.values(name))

    def input(self, name: str) -> str:
        """The tensor of operand `name`.

        Raises:
            NotSupported: the operand is omitted, or is a list of several.
        """
        values = self.values(name)
        if len(values) != 1:
            raise NotSupported(
                f"{dialect.describe(self.node)}: operand {name!r} must be one tensor, "
                f"got {len(values)}."
            )
        return self.tensor(values[0])

    def optional(self, name: str) -> str | None:
        """The tensor of operand `name`, None where it is omitted."""
        return self.input(name) if self.has(name) else None

    def inputs(self, name: str) -> list[str]:
        """The tensors of list operand `name`."""
        return [self.tensor(value) for value in self.values(name)]

    def array(self, name: str) -> tuple[Element, ...]:
        """The elements of operand `name`, an array of tensors (Paddle's ``DenseTensorArray``).

        Raises:
            NotSupported: the array is not created in the program.
        """
        (value,) = self.values(name)
        if id(value) not in self.arrays:
            raise self.refuse(f"operand {name!r} is no array of tensors that the program makes.")
        return self.arrays[id(value)]

    def element(self, element: Element) -> str:
        """An element of an array as a tensor."""
        return element if isinstance(element, str) else self.const(element)

    def static(self, name: str) -> Array:
        """The value of operand `name`, a constant of the program; a list is joined to a vector.

        Raises:
            NotSupported: it is computed at run time.
        """
        values = self.values(name)
        arrays = [self.constants.get(id(value)) for value in values]
        if not values or any(array is None for array in arrays):
            raise NotSupported(
                f"{dialect.describe(self.node)}: {name!r} must be a constant of the program, got "
                f"a tensor computed at run time ({', '.join(str(v.name) for v in values)}). "
                "An IPU program has static shapes: write the number, or derive it from a shape."
            )
        if len(arrays) == 1 and arrays[0] is not None:
            return arrays[0]
        return np.concatenate([np.asarray(array).reshape(-1) for array in arrays])

    def is_constant(self, name: str) -> bool:
        """True when operand `name` is a constant of the program."""
        return all(id(value) in self.constants for value in self.values(name))

    def number(self, name: str, default: float | None = None) -> float:
        """Operand `name`, a constant of one element; if it is omitted, the attribute `name`.

        Raises:
            NotSupported: the operand is computed at run time.
        """
        if self.has(name):
            return float(self.static(name).reshape(()))
        return float(self.attr(name, default))

    def ints(self, name: str) -> list[int]:
        """Operand `name` as constant integers; if it is omitted, the attribute `name`.

        Returns:
            The integers; none if there is neither.

        Raises:
            NotSupported: the operand is computed at run time.
        """
        numbers = self.static(name).reshape(-1) if self.has(name) else self.attr(name) or ()
        return [int(number) for number in numbers]

    def attr(self, name: str, default: Any = None) -> Any:
        """Attribute `name` of the node, or `default`."""
        return dialect.attribute(self.node, name, default)

    def refuse(self, why: str) -> NotSupported:
        """The error to raise for a use of the node's operator that is not supported.

        Args:
            why: what is not supported and what to do instead; the operator and its source line are
                added in front.
        """
        return NotSupported(f"{dialect.describe(self.node)}: {why}")

    # -- tensors -------------------------------------------------------------------------------

    def tensor(self, value: ir.Value) -> str:
        """The tensor of a dialect value; a constant is emitted at its first use.

        Raises:
            NotSupported: the value is an array of tensors.
        """
        key = id(value)
        if key not in self.tensors:
            if key in self.arrays:
                raise self.refuse(
                    f"{value.name!r} is an array of tensors, and it takes a tensor: read one by "
                    "array_read, or all as one by tensor_array_to_tensor."
                )
            if key not in self.constants:
                raise NotSupported(
                    f"{dialect.describe(value.producer() or self.node)}: its result {value.name} "
                    "cannot be read; compute it apart."
                )
            self.tensors[key] = self.const(self.constants[key])
        return self.tensors[key]

    def shape(self, tensor: str) -> list[int]:
        """A tensor's static shape."""
        return list(self.builder.getTensorShape(tensor))

    def rank(self, tensor: str) -> int:
        """A tensor's rank."""
        return len(self.shape(tensor))

    def dtype(self, tensor: str) -> str:
        """A tensor's dtype by its NumPy name, for instance ``float16``."""
        return str(self.builder.getTensorDtypeString(tensor))

    def is_float(self, tensor: str) -> bool:
        """True for the floating-point dtypes."""
        return self.dtype(tensor) in ("float16", "bfloat16", "float32", "float64")

    def output_dtype(self, index: int = 0) -> str:
        """The device dtype of the node's result `index`."""
        return self.device_dtype(dialect.dtype_name(self.node.outputs[index]))

    def device_dtype(self, dtype: str) -> str:
        """The dtype that a Paddle dtype has in the program that is emitted."""
        return device_dtype(dtype, self.in_64_bits)

    def is_used(self, index: int) -> bool:
        """True when result `index` is read or fetched."""
        value = self.node.outputs[index]
        return bool(value.uses()) or value.is_graph_output()

    # -- emission ------------------------------------------------------------------------------

    def const(self, array: npt.ArrayLike, dtype: str | None = None) -> str:
        """A constant tensor.

        Args:
            array: its value.
            dtype: its dtype by NumPy's name; by default that of `array` on the device.

        Raises:
            NotSupported: an integer does not fit the dtype.
        """
        array = np.asarray(array)
        target = np.dtype(dtype or self.device_dtype(array.dtype.name))
        if target.kind in "iu" and array.dtype.kind in "iuf" and array.size:
            self._check_fits(array, np.iinfo(target))
        # A number beyond the range of half becomes infinite: a bound that large bounds nothing.
        with np.errstate(over="ignore"):
            array = array.astype(target, copy=False)
        return self._constant(array)

    def _check_fits(self, array: Array, limits: np.iinfo[Any]) -> None:
        low, high = array.min().item(), array.max().item()
        if low < limits.min or high > limits.max:
            raise self.refuse(
                f"the program holds {low if low < limits.min else high}, which does not fit the "
                f"{limits.bits}-bit integers of an IPU. Use a smaller number."
            )

    def const_like(self, number: float, tensor: str) -> str:
        """A rank-0 constant of a tensor's dtype."""
        return self.const(np.asarray(number), self.dtype(tensor))

    def shape_const(self, dims: Sequence[int]) -> str:
        """A constant INT64 vector, as Reshape, Slice and Expand read shapes."""
        return self._constant(np.asarray(list(dims), dtype=np.int64))

    def _constant(self, array: Array) -> str:
        placement = (self.attr("ipu_index"), self.attr("ipu_stage"))
        key = (array.dtype.str, array.shape, array.tobytes(), placement)
        if array.size > 64:
            return self.onnx.constant(np.asarray(array, order="C"))
        if key not in self._emitted:
            self._emitted[key] = self.onnx.constant(np.asarray(array, order="C"))
        return self._emitted[key]

    def reshape(self, tensor: str, dims: Sequence[int]) -> str:
        """The tensor reshaped to `dims`; the same tensor if it has that shape."""
        if self.shape(tensor) == list(dims):
            return tensor
        return self.reshaped(tensor, dims)

    def reshaped(self, tensor: str, dims: Sequence[int]) -> str:
        """The tensor reshaped to `dims`, as a new tensor; a 0 in `dims` is a size, not a copy."""
        old = self.shape(tensor)
        if any(dim == 0 and old[at : at + 1] != [0] for at, dim in enumerate(dims)):
            # To ONNX's Reshape a 0 means the input's dimension at that index.
            return self.const(np.zeros(tuple(dims), self.dtype(tensor)))
        return self.onnx.reshape([tensor, self.shape_const(dims)])

    def transpose(self, tensor: str, order: Sequence[int]) -> str:
        """The tensor with its axes in `order`; the same tensor if that changes nothing."""
        if list(order) == sorted(order):
            return tensor
        return self.onnx.transpose([tensor], list(order))

    def swap_last_axes(self, tensor: str) -> str:
        """Matrices transposed; a vector as it is."""
        rank = self.rank(tensor)
        if rank < 2:
            return tensor
        return self.onnx.transpose([tensor], [*range(rank - 2), rank - 1, rank - 2])

    def axis_last(self, tensor: str, axis: int) -> str:
        """The tensor with `axis` moved to the end; the other axes keep their order."""
        return self.transpose(tensor, _axis_last(self.rank(tensor), axis))

    def last_axis_back(self, tensor: str, axis: int) -> str:
        """The inverse of `axis_last`."""
        return self.transpose(tensor, inverse_order(_axis_last(self.rank(tensor), axis)))

    def slice(self, tensor: str, axis: int, start: int, end: int) -> str:
        """The part of a tensor from index `start` up to `end` along `axis`."""
        bounds = [self.shape_const([number]) for number in (start, end, axis)]
        return self.onnx.slice([tensor, *bounds])

    def cast(self, tensor: str, dtype: str) -> str:
        """The tensor in the device dtype of `dtype`; the same tensor if it has it."""
        dtype = self.device_dtype(dtype)
        if self.dtype(tensor) == dtype:
            return tensor
        return self.onnx.cast([tensor], dialect.POPART_DTYPES[dtype])

    def in_own_width(self, tensor: str, value: ir.Value) -> str:
        """A result cast to the integer width that its Paddle value declares, if int64 is kept."""
        if not self.in_64_bits or value.dtype not in _WIDTHS:
            return tensor
        wanted = dialect.dtype_name(value)
        return self.cast(tensor, wanted) if self.dtype(tensor) in ("int32", "int64") else tensor

    def index(self, tensor: str) -> str:
        """Integers as INT32 indices; int64 values beyond INT32 saturate, and stay out of bounds."""
        narrow = self.cast(tensor, "int32")
        if narrow != tensor and self.dtype(tensor) == "int64":
            self.builder.addNodeAttribute(SATURATES, 1, {narrow})
        return narrow

    def extension(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Mapping[str, object] | None = None,
        num_outputs: int = 1,
    ) -> list[str]:
        """Emits an operator of the ``ai.paddle_ipu`` domain; the program is then not portable.

        Args:
            op_type: the operator's type, for instance ``GatherNd``.
            inputs: its input tensors.
            attributes: its attributes.
            num_outputs: how many results it has.

        Returns:
            Its results.

        Raises:
            TypeError: an attribute that is not in the operator's row; the translator is wrong.
        """
        row = schema_of("ai.paddle_ipu", op_type)
        unknown = set(attributes or ()) - set(row.attributes if row else ())
        if unknown:
            raise TypeError(f"ai.paddle_ipu.{op_type} has no attribute {sorted(unknown)}")
        outputs = self.builder.customOp(
            opName=op_type,
            opVersion=1,
            domain="ai.paddle_ipu",
            inputs=list(inputs),
            attributes=dict(attributes or {}),
            numOutputs=num_outputs,
            name=str(self.node.name),
        )
        self.extensions.setdefault(op_type, self.node)
        self.record_origin(outputs)
        return [str(output) for output in outputs]

    def reduction(self, name: str) -> Any:
        """PopART's ``ReductionType`` of that name."""
        return getattr(self._popart.ReductionType, name)

    def scatter_reduction(self, name: str) -> Any:
        """PopART's ``ScatterReduction`` of that name."""
        return getattr(self._popart.ScatterReduction, name)

    def check_range(
        self, result: str, operand: int, what: str, low: int, high: int = HIGHEST
    ) -> None:
        """Makes a run raise if an input of an operator is out of range, as Paddle's kernel does.

        Args:
            result: first result of the operator.
            operand: which of its inputs is checked.
            what: the name of one number in the message, for instance ``index``.
            low: the smallest number allowed.
            high: the largest number allowed.
        """
        self.operand_ranges.setdefault(result, []).append(OperandRange(operand, what, low, high))

    def check_divisor(self, result: str) -> None:
        """Makes a run raise if the second input of an integer division has a zero."""
        divisor = OperandRange(1, "divisor", 1, 1, nonzero=True)
        self.operand_ranges.setdefault(result, []).append(divisor)

    def record_origin(self, outputs: str | Sequence[str] | None) -> None:
        """Records the current node as the origin of tensors."""
        for output in [outputs] if isinstance(outputs, str) else outputs or ():
            self.origins[str(output)] = self.node


def _cannot_emit(context: TranslationContext, nodes: Iterable[ir.Node]) -> None:
    raise ValueError("nodes are emitted by ops.translate.translate, which has not begun")


_OneResult = Callable[..., str]
_Results = Callable[..., list[str]]


class _Opset:
    """An opset of the builder that records the Paddle node of each tensor it emits.

    Its methods are the builder's, which check their arguments. Those with several results are
    declared here; all others return one tensor.
    """

    batchnormalization: _Results
    dropout: _Results
    groupnormalization: _Results
    gru: _Results
    logical_if: _Results
    loop: _Results
    lstm: _Results
    maxpool: _Results
    rnn: _Results
    sort: _Results
    split: _Results
    topk: _Results

    def __init__(self, opset: Any, context: TranslationContext) -> None:
        self._opset = opset
        self._context = context

    def __getattr__(self, name: str) -> _OneResult:
        emit, context = getattr(self._opset, name), self._context
        argument = DEBUG_ARGUMENTS.get(name, "debugContext")

        def call(*args: object, **kwargs: object) -> Any:
            outputs = emit(*args, **{argument: str(context.node.name)}, **kwargs)
            context.record_origin(outputs)
            return outputs

        setattr(self, name, call)
        return call


def _axis_last(rank: int, axis: int) -> list[int]:
    axis %= max(rank, 1)
    return sorted(range(rank), key=lambda at: at == axis)


def inverse_order(order: Sequence[int]) -> list[int]:
    """The order of axes that undoes a transposition."""
    return [order.index(axis) for axis in range(len(order))]


def product(dims: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return math.prod(dims)
