"""A tensor's static type: element type and shape, with PopART's names for the element types."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.absent import Absent
from paddle_ipu.popart.enums import DataType

# PopART spells the two 8-bit floats by their exponent and mantissa widths.
_POPART_TO_ONNX = {"FLOAT8_143": "FLOAT8E4M3FN", "FLOAT8_152": "FLOAT8E5M2"}
_ONNX_TO_POPART = {onnx_name: name for name, onnx_name in _POPART_TO_ONNX.items()}


def dtype_from_string(name: str) -> ir.DataType:
    """The element type PopART calls `name`, for instance ``FLOAT`` or ``INT32``."""
    if name not in DataType.__members__:
        known = ", ".join(sorted(DataType.__members__))
        raise popart_exception(f"'{name}' is not a PopART data type. Use one of {known}")
    return ir.DataType[_POPART_TO_ONNX.get(name, name)]


def dtype_string(dtype: ir.DataType) -> str:
    """PopART's name of an element type."""
    return _ONNX_TO_POPART.get(dtype.name, dtype.name)


def shape_string(shape: Sequence[int]) -> str:
    """A shape as PopART prints it: ``[2 3]``."""
    return f"[{' '.join(map(str, shape))}]"


def _shape_from_string(text: str) -> list[int]:
    """The dimensions of ``(2,3)``."""
    if len(text) < 2 or text[0] != "(" or text[-1] != ")":
        raise popart_exception(f"invalid string for shape: {text!r}. Write it as (2,3)")
    if " " in text:
        raise popart_exception(
            f"s contains a space : not valid shape string: {text!r}. Write it as (2,3)"
        )
    try:
        return [int(part) for part in text[1:-1].split(",") if part]
    except ValueError:
        raise popart_exception(f"invalid string for shape: {text!r}. Write it as (2,3)") from None


class TensorInfo:
    """Element type and shape: ``TensorInfo(dtype, shape)`` or ``TensorInfo(array)``.

    `dtype` is a PopART type name, a `DataType`, a NumPy dtype or a NumPy scalar type; beside a
    name, the shape may be a text, ``(2,3)``. Immutable.

    Raises:
        TypeError: other arguments.
        popart_exception: an unknown type name, or a text that is no shape.
    """

    __slots__ = ("dims", "dtype")

    dtype: ir.DataType
    dims: tuple[int, ...]

    def __init__(self, *args: Any) -> None:
        if len(args) == 2:
            dtype, shape = args
        elif len(args) == 1 and isinstance(args[0], np.ndarray):
            dtype, shape = args[0].dtype, args[0].shape
        else:
            raise TypeError(f"Can not create TensorInfo with args {args}")
        if isinstance(dtype, str) and isinstance(shape, str):
            shape = _shape_from_string(shape)
        if isinstance(dtype, DataType):
            dtype = dtype.name
        if isinstance(dtype, str):
            resolved = dtype_from_string(dtype)
        elif isinstance(dtype, ir.DataType):
            resolved = dtype
        elif isinstance(dtype, (np.dtype, type)):
            try:
                resolved = ir.DataType.from_numpy(np.dtype(dtype))
            except TypeError as error:
                raise TypeError(f"Can not create TensorInfo with args {args}") from error
        else:
            raise TypeError(f"Can not create TensorInfo with args {args}")
        if isinstance(shape, (str, int)) or not isinstance(shape, Iterable):
            raise TypeError(f"Can not create TensorInfo with args {args}")
        object.__setattr__(self, "dtype", resolved)
        object.__setattr__(self, "dims", tuple(int(dim) for dim in shape))

    @classmethod
    def of(cls, dtype: ir.DataType, dims: tuple[int, ...]) -> TensorInfo:
        """Builds without checking, for shape inference."""
        info = object.__new__(cls)
        object.__setattr__(info, "dtype", dtype)
        object.__setattr__(info, "dims", dims)
        return info

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"TensorInfo is immutable, cannot set {name}")

    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self.dims)

    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    def nelms(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    def nbytes(self) -> int:
        """The bytes of its elements."""
        return int(self.nelms() * self.dtype.itemsize)

    def dim(self, i: int) -> int:
        """One dimension, counted from 0.

        Raises:
            popart_exception: there is no such dimension.
        """
        if not 0 <= i < len(self.dims):
            raise popart_exception(f"Invalid input dimension {i}, tensor of rank {len(self.dims)}")
        return self.dims[i]

    def strides(self, shape: Sequence[int]) -> list[int]:
        """Bytes from one element to the next in each dimension of a contiguous array.

        Args:
            shape: the array's, which differs from this one's where replicas have weights of
                their own.
        """
        steps = list(itertools.accumulate(reversed(shape[1:]), operator.mul, initial=1))
        return [int(self.dtype.itemsize * step) for step in reversed(steps)] if shape else []

    def metaShape(self) -> list[int]:
        """The shape before a tensor was sharded over replicas; empty, for nothing is here."""
        return []

    def dataType(self) -> DataType:
        """The element type."""
        return DataType[self.data_type()]

    set = Absent("a TensorInfo does not change; make another")

    def data_type(self) -> str:
        """PopART's name of the element type, for instance ``FLOAT16``."""
        return dtype_string(self.dtype)

    def data_type_lcase(self) -> str:
        """NumPy's name of the element type, for instance ``float16``."""
        return str(self.dtype.numpy().name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorInfo):
            return NotImplemented
        return self.dtype == other.dtype and self.dims == other.dims

    def __hash__(self) -> int:
        return hash((self.dtype, self.dims))

    def __str__(self) -> str:
        return f"{self.data_type():<7} {shape_string(self.dims)}"

    def __repr__(self) -> str:
        return f"TensorInfo({self.data_type()!r}, {self.shape()})"


def info_of(value: ir.Value) -> TensorInfo | None:
    """The static type of a value, or None when it is not known."""
    shape, dtype = value.shape, value.dtype
    if shape is None or dtype is None:
        return None
    dims = tuple(dim for dim in shape if isinstance(dim, int))
    return TensorInfo.of(dtype, dims) if len(dims) == len(shape) else None
