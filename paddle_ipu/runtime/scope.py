"""Reads and writes the variables of a Paddle Scope as NumPy arrays."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from paddle_ipu.errors import NotSupported, UninitializedParameterError
from paddle_ipu.operating_system import processors

Array = np.ndarray[Any, Any]
_INT32 = np.iinfo(np.int32)
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_LARGE = 1 << 20
"""Arrays of so many bytes are worth a thread."""

_KINDS = {
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    "int8": "INT8",
    "uint8": "UINT8",
    "int32": "INT32",
    "int64": "INT64",
}
"""NumPy's names of types that tensors are made of without data -> Paddle's."""


def temporary() -> Any:
    """A new Scope that goes, with its tensors, when nothing refers to it any more.

    Those of ``paddle.static.Scope()`` stay until the process ends: Paddle keeps them in a pool.
    What it gives is a child of one of them, which leaves the pool when the child is dropped.
    """
    from paddle.base import core

    parent = core.Scope()
    child = parent.new_scope()
    weakref.finalize(child, parent._remove_from_pool).atexit = False
    return child


def tensor(scope: Any, name: str) -> Any | None:
    """The dense tensor of variable `name`, None where there is none or it holds nothing."""
    variable = scope.find_var(name)
    if variable is None:
        return None
    dense = variable.get_tensor()
    return dense if dense._is_initialized() else None


class _CpuTensor:
    """A dense tensor under the protocol NumPy reads memory by; Paddle's own lacks the device."""

    def __init__(self, dense: Any) -> None:
        self._tensor = dense

    def __dlpack__(self, **_: Any) -> Any:
        return self._tensor._to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _Memory:
    """A dense tensor's memory to write in; what Paddle gives by DLPack is read-only."""

    def __init__(self, dense: Any, dtype: npt.DTypeLike) -> None:
        self._tensor = dense
        self.__array_interface__ = {
            "version": 3,
            "data": (dense._ptr(), False),
            "shape": tuple(dense.shape()),
            "typestr": np.dtype(dtype).str,
        }


def view(dense: Any) -> Array:
    """A dense tensor's memory as an array, which keeps it alive."""
    if str(dense._dtype()).upper().endswith(("BF16", "BFLOAT16")):
        # Paddle's DLPack leaves bfloat16 out.
        return from_bits(np.asarray(_Memory(dense, np.uint16)))
    return np.from_dlpack(_CpuTensor(dense))


def writable(dense: Any) -> Array:
    """A dense tensor's memory as an array that can be written, which keeps it alive."""
    array = view(dense)
    if array.flags.writeable or not array.size:
        return array
    return np.asarray(_Memory(dense, array.dtype))


def from_bits(array: Array) -> Array:
    """The bits of bfloat16 numbers, as Paddle gives and takes them, as those numbers."""
    return array.view(ml_dtypes.bfloat16)


def numbers(array: Array) -> Array:
    """What Paddle gives as an array; it has no other type that NumPy calls uint16."""
    return from_bits(array) if array.dtype == np.uint16 else array


def to_bits(array: Array) -> Array:
    """An array as Paddle gives and takes it: of bfloat16 the bits, of any other type itself."""
    return array.view(np.uint16) if array.dtype == _BFLOAT16 else array


def write(dense: Any, array: Array) -> None:
    """Copies an array into a dense tensor."""
    from paddle.base import core

    dense.set(to_bits(array), core.CPUPlace())


def fill(scope: Any, arrays: Mapping[str, Array]) -> None:
    """Copies arrays into a Scope's variables, large ones by several threads."""
    copies = []
    for name, array in arrays.items():
        dense, whole = scope.var(name).get_tensor(), np.asarray(array, order="C")
        if whole.nbytes < _LARGE or whole.dtype.name not in _KINDS:
            write(dense, whole)
        else:
            copies.append((_bytes(_made(dense, whole)), _bytes(whole)))
    if copies:
        with ThreadPoolExecutor(processors.usable(), "paddle_ipu-fill") as threads:
            list(threads.map(lambda pair: np.copyto(*pair), copies))


def _made(dense: Any, array: Array) -> Array:
    """The memory of a dense tensor that is given the shape and dtype of an array."""
    from paddle.base import core

    dense._set_dims(list(array.shape))
    dense._mutable_data(core.CPUPlace(), getattr(core.VarDesc.VarType, _KINDS[array.dtype.name]))
    return writable(dense)


def _bytes(array: Array) -> Array:
    """NumPy copies numbers that a file has at odd places one by one, bytes all at once."""
    return array.reshape(-1).view(np.uint8)


def add(scope: Any, name: str, array: Array) -> None:
    """Makes a variable that holds an array, where there is none that holds something."""
    if tensor(scope, name) is None:
        write(scope.var(name).get_tensor(), array)


def narrowed(name: str, array: Array, in_64_bits: bool = False) -> Array:
    """A variable's value as an IPU takes it, which has no 64-bit numbers.

    Args:
        in_64_bits: it is for the IPU Model, where int64 stays what it is.

    Raises:
        NotSupported: a whole number that does not fit 32 bits.
    """
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype != np.int64 or in_64_bits:
        return array
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if low < _INT32.min or high > _INT32.max:
        raise NotSupported(
            f"variable {name!r} holds {low if low < _INT32.min else high}, which does not fit the "
            "32-bit integers of an IPU. Use a smaller number."
        )
    return array.astype(np.int32)


def read(scope: Any, names: Iterable[str]) -> dict[str, Array]:
    """Views of variables.

    Raises:
        UninitializedParameterError: it names every variable that holds no value.
    """
    tensors = {name: tensor(scope, name) for name in names}
    missing = [name for name, dense in tensors.items() if dense is None]
    if missing:
        raise UninitializedParameterError(
            f"{len(missing)} variable(s) of the program hold no value in the scope: "
            f"{', '.join(sorted(missing)[:10])}{', ...' if len(missing) > 10 else ''}. Run the "
            "startup program with the same scope, or load a checkpoint, before compiling."
        )
    return {name: view(dense) for name, dense in tensors.items()}
