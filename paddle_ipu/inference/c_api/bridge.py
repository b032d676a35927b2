"""The functions that ``paddle_ipu_inference.c`` calls: configs, predictors, memory as arrays."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle import inference

import paddle_ipu
from paddle_ipu.errors import FeedError, NotSupported

if TYPE_CHECKING:
    from paddle.inference import Config, Predictor, Tensor

paddle_ipu.activate()

_TYPES = ("float32", "float16", "float64", "int32", "int64", "int8", "uint8", "bool")
"""By the numbers of PI_DataType."""


def config(program: str, parameters: str | None) -> Config:
    """A quiet config for a model: two files, or a folder, or a path without suffix."""
    made = inference.Config(*([program] if parameters is None else [program, parameters]))
    made.disable_glog_info()
    return made


def predictor(source: Config) -> Predictor:
    """A predictor for a copy of a config: Paddle's predictors on the CPU use a config up."""
    return inference.create_predictor(inference.Config(source))


def copy_from(tensor: Tensor, code: int, address: int, shape: tuple[int, ...]) -> None:
    """Copies memory into an input.

    Raises:
        FeedError: a negative dimension.
        NotSupported: a type that PI_DataType does not have.
    """
    if not 0 <= code < len(_TYPES):
        raise NotSupported(f"PI_TensorCopyFromCpu: {code} is no PI_DataType.")
    if any(dim < 0 for dim in shape):
        raise FeedError(f"PI_TensorCopyFromCpu: the shape {list(shape)} has a negative dimension.")
    dtype = np.dtype(_TYPES[code])
    size = prod(shape) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(address)
    tensor.copy_from_cpu(np.ndarray(shape, dtype, memoryview(memory)))


def copy_to(tensor: Tensor, address: int, size: int) -> None:
    """Copies a tensor's data to memory.

    Raises:
        FeedError: the memory has another size.
    """
    array = np.ascontiguousarray(tensor.copy_to_cpu())
    if array.nbytes != size:
        raise FeedError(
            f"PI_TensorCopyToCpu: the tensor has {array.nbytes} bytes, the shape "
            f"{list(array.shape)} of {array.dtype.name}; got memory of {size} bytes."
        )
    ctypes.memmove(address, array.ctypes.data, size)


def type_of(tensor: Tensor) -> int:
    """The number of PI_DataType of a tensor.

    Raises:
        NotSupported: a type that PI_DataType does not have.
    """
    name = str(tensor.type()).rpartition(".")[2].lower()
    if name not in _TYPES:
        raise NotSupported(f"PI_TensorType: the tensor is of {name}, which C has no name for.")
    return _TYPES.index(name)


paddle.disable_signal_handler()
