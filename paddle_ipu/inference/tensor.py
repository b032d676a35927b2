"""Handles of a predictor's inputs and outputs, with the methods of ``paddle.inference.Tensor``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.base import core

from paddle_ipu.dialect.paddle_objects import DenseTensor
from paddle_ipu.errors import FeedError, FetchError, NotSupported
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.feed_words import described

if TYPE_CHECKING:
    from paddle import Tensor

Array = np.ndarray[Any, Any]

_DTYPES = frozenset(
    {"int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bool", "uint16"}
)
"""Types of arrays that Paddle's handles take; uint16 holds the bits of bfloat16."""

_NUMPY_DTYPES = frozenset(map(np.dtype, _DTYPES))
"""The same as dtypes: NumPy is slow to name one."""


class IpuTensor:
    """An input or output of a predictor on the IPU.

    Args:
        name: the input's or output's.
        dtype: that the model declares, Paddle's name.
        is_input: whether the user writes it.
    """

    def __init__(self, name: str, dtype: str, is_input: bool) -> None:
        self._name = name
        self._dtype = dtype
        self._is_input = is_input
        self._shape: list[int] | None = None
        self.array: Array | None = None
        # The memory of a shared tensor must not be written.
        self._owns = False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """``isinstance(handle, paddle.inference.Tensor)`` holds, as for Paddle's own handles."""
        return core.PaddleInferTensor

    def name(self) -> str:
        """The input's or output's name."""
        return self._name

    def reshape(self, shape: Sequence[int] | int) -> None:
        """Sets the shape; ``copy_from_cpu`` sets that of its array."""
        dims = [shape] if isinstance(shape, int) else [int(dim) for dim in shape]
        self._shape = dims
        if self.array is not None and list(self.array.shape) != dims:
            self.array = None

    def shape(self) -> list[int]:
        """The shape; ``[0]`` before there is one, as Paddle's handles have."""
        if self.array is not None:
            return list(self.array.shape)
        return list(self._shape or [0])

    def type(self) -> core.PaddleDType:
        """A ``paddle.inference.DataType``: that of the data, or the declared one before."""
        return _DATA_TYPES[self._dtype if self.array is None else _name_of(self.array)]

    def lod(self) -> list[list[int]]:
        """No levels: programs for the IPU have dense tensors only."""
        return []

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Takes an empty one only.

        Raises:
            NotSupported: levels of detail.
        """
        if len(lod):
            raise NotSupported(
                f"input {self._name!r}: the IPU has dense tensors without levels of detail. Pad "
                "the sequences to one length, and give the lengths as an input of their own."
            )

    def copy_from_cpu(self, data: Array | list[str]) -> None:
        """Copies an array; its shape becomes the tensor's.

        Raises:
            TypeError: no array, or one of a type that Paddle does not take.
        """
        held = self.array
        if (
            self._owns
            and type(data) is np.ndarray
            and held is not None
            and held.dtype == data.dtype
            and held.shape == data.shape
        ):
            held[...] = data
            return
        self._require_input("copy_from_cpu")
        if isinstance(data, list) and data and isinstance(data[0], str):
            raise NotSupported(f"input {self._name!r}: the IPU has no tensors of text.")
        if not isinstance(data, np.ndarray):
            raise TypeError(
                "In copy_from_cpu, we only support numpy ndarray and list[str] data type."
            )
        if data.dtype not in _NUMPY_DTYPES and data.dtype.name not in _DTYPES:
            is_number = data.dtype.kind in "biufc"
            got = f"an array of {data.dtype.name}" if is_number else described(data)
            raise TypeError(
                f"input {self._name!r}: copy_from_cpu got {got}, expected "
                f"one of {', '.join(sorted(_DTYPES - {'uint16'}))}. The model declares "
                f"{self._dtype}."
            )
        self.array, self._owns = _aligned(data), True

    def share_external_data(self, data: Tensor | DenseTensor) -> None:
        """Takes a tensor's memory without a copy, and keeps the tensor alive.

        Args:
            data: a ``paddle.Tensor``, or a dense tensor as a Scope holds it.
        """
        self._require_input("share_external_data")
        self.array, self._owns = view_of(data, "share_external_data"), False

    def share_external_data_by_ptr_name(self, *_: object) -> None:
        """Not supported: memory shared by name is that of GPUs.

        Raises:
            NotSupported: always.
        """
        raise NotSupported(
            f"input {self._name!r}: share_external_data_by_ptr_name is for memory of other "
            "devices. Use share_external_data or copy_from_cpu."
        )

    def copy_to_cpu(self) -> Array:
        """A copy of the data.

        Raises:
            FetchError: there is none yet.
        """
        if self.array is None:
            act = "copy_from_cpu" if self._is_input else "predictor.run()"
            raise FetchError(f"tensor {self._name!r} holds no data. Call {act} first.")
        return np.array(self.array)

    def _require_input(self, what: str) -> None:
        if not self._is_input:
            raise FeedError(
                f"{what}: {self._name!r} is an output, which a run writes. Take a handle of "
                "get_input_handle."
            )


def view_of(data: Tensor | DenseTensor, where: str) -> Array:
    """A tensor's memory as an array, which keeps it alive.

    Args:
        data: the tensor.
        where: the method that was given it.

    Raises:
        TypeError: no tensor.
    """
    if isinstance(data, paddle.Tensor):
        data = data.get_tensor()
    if not isinstance(data, _DENSE):
        raise TypeError(
            f"In {where}, we only support Tensor and DenseTensor, got {type(data).__name__}. For "
            "arrays there is predictor.get_input_handle(name).copy_from_cpu(array)."
        )
    return scopes.to_bits(scopes.view(data))


_ALIGNMENT = 64
"""Bytes; XLA copies what begins elsewhere."""


def _aligned(data: Array) -> Array:
    """A copy in C order, which XLA reads where it is."""
    memory = np.empty(data.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + data.nbytes].view(data.dtype).reshape(data.shape)
    copy[...] = data
    return copy


# Paddle 2.6 has the older name.
_DENSE = core.DenseTensor if hasattr(core, "DenseTensor") else core.LoDTensor


def _name_of(array: Array) -> str:
    return "bfloat16" if array.dtype == np.uint16 else array.dtype.name


def _data_types() -> dict[str, core.PaddleDType]:
    kinds = {name: getattr(core.PaddleDType, name.upper(), None) for name in (*_DTYPES, "bfloat16")}
    # Paddle's own handles say FLOAT32 of types that it has no name for.
    return {
        name: core.PaddleDType.FLOAT32 if kind is None else kind for name, kind in kinds.items()
    }


_DATA_TYPES = _data_types()
