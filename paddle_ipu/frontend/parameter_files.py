"""Reads the parameter files of saved Paddle models, without Paddle and without running anything.

A stored variable is what Paddle's ``SerializeToStream`` of a dense tensor writes, little-endian:

    uint32  version of the LoD part, 0
    uint64  number of LoD levels; for each a uint64 byte count and that many bytes
    uint32  version of the tensor part, 0
    int32   length of the TensorDesc; then its protobuf: 1 = dtype, 2 = dims
    bytes   the elements, in C order

A combined file (``.pdiparams``, ``__params__``) holds the persistable variables of a program one
after another, sorted by name; the names are not in it. Otherwise each variable has a file of its
own, named after it, beside ``__model__``.
"""

from __future__ import annotations

import errno
import math
import stat
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from paddle_ipu.errors import ModelFileError

Array = np.ndarray[Any, Any]

_DTYPES: Mapping[int, Any] = {
    0: np.dtype("bool"),
    1: np.dtype("int16"),
    2: np.dtype("int32"),
    3: np.dtype("int64"),
    4: np.dtype("float16"),
    5: np.dtype("float32"),
    6: np.dtype("float64"),
    19: np.dtype("uint64"),
    20: np.dtype("uint8"),
    21: np.dtype("int8"),
    22: np.dtype(ml_dtypes.bfloat16),
    23: np.dtype("complex64"),
    24: np.dtype("complex128"),
    32: np.dtype(ml_dtypes.float8_e4m3fn),
    33: np.dtype(ml_dtypes.float8_e5m2),
}
"""``VarType.Type`` of framework.proto -> NumPy dtype."""

IN_MEMORY = "the parameters in memory"
"""What messages call parameters that are no file."""

_MAX_LOD_LEVELS = 64
_MAX_DIMS = 64
_VARINT, _BYTES = 0, 2


def read_combined(source: Path | bytes, names: Iterable[str], where: str = "") -> dict[str, Array]:
    """The variables of a combined file.

    Args:
        source: the file, or its content.
        names: the persistable variables of the program, in any order.
        where: what messages call the content; a file has its path.

    Returns:
        Read-only arrays by name; of a file they are mapped, not copied: copy what must outlive it.

    Raises:
        ModelFileError: the file is missing or damaged, or holds another number of variables.
    """
    expected = sorted(set(names))
    where = where or (IN_MEMORY if isinstance(source, bytes) else str(source))
    buffer = _content(source)
    arrays: dict[str, Array] = {}
    offset = 0
    for number, name in enumerate(expected):
        if offset == len(buffer):
            raise ModelFileError(
                f"{where}: holds {number} variable(s), the program has {len(expected)}; "
                f"{name!r} and what follows it by name is missing. Take the parameter file that "
                "was saved together with this program."
            )
        stream = _Stream(buffer, offset, f"{where}: variable {name!r} at byte {offset}")
        arrays[name] = stream.variable()
        offset = stream.position
    if offset != len(buffer):
        raise ModelFileError(
            f"{where}: {len(buffer) - offset} byte(s) are left after the {len(expected)} "
            "variable(s) of the program. Take the parameter file that was saved together with "
            "this program."
        )
    return arrays


def read_separate(folder: Path, names: Iterable[str]) -> dict[str, Array]:
    """The variables of a folder with one file each.

    Args:
        folder: the folder; nothing outside of it is read, whatever the names are.
        names: the persistable variables of the program.

    Raises:
        ModelFileError: files are missing (all are listed) or damaged, or a name leads out of
            the folder.
    """
    paths = {name: _inside(folder, name) for name in names}
    missing = sorted(name for name, path in paths.items() if not path.is_file())
    if missing:
        shown = ", ".join(map(repr, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise ModelFileError(
            f"{folder}: {len(missing)} parameter file(s) are missing: {shown}. Where one file "
            "holds all parameters, name it with params_filename."
        )
    arrays = {}
    for name, path in paths.items():
        buffer = _content(path)
        stream = _Stream(buffer, 0, f"{path}: variable {name!r}")
        arrays[name] = stream.variable()
        if stream.position != len(buffer):
            raise ModelFileError(
                f"{path}: {len(buffer) - stream.position} byte(s) are left after variable "
                f"{name!r}. Where the file holds all parameters, name it with params_filename."
            )
    return arrays


def _inside(folder: Path, name: str) -> Path:
    root = folder.resolve()
    try:
        path = (root / name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelFileError(
            f"{folder}: the program has a parameter named {name!r}, which cannot be a file's "
            f"name: {error}. The model is damaged or was made to read other files."
        ) from error
    if path == root or not path.is_relative_to(root):
        raise ModelFileError(
            f"{folder}: the program has a parameter named {name!r}, whose file is outside of the "
            "model's folder. Nothing was read; a model that Paddle saved has no such name."
        )
    return path


def _content(source: Path | bytes) -> memoryview:
    if isinstance(source, bytes):
        return memoryview(source)
    try:
        kept = source.stat()
        if not stat.S_ISREG(kept.st_mode):
            raise OSError(errno.EINVAL, "no ordinary file")
        if kept.st_size == 0:
            return memoryview(b"")
        mapped: Any = np.memmap(source, dtype=np.uint8, mode="r")
        return memoryview(mapped)
    except OSError as error:
        raise ModelFileError(
            f"{source}: the parameter file cannot be read: {error.strerror or error}. Put the "
            "file that was saved together with the program beside it, or name it with "
            "params_filename."
        ) from error


class _Stream:
    """One variable in a buffer; every length is checked against what is there before it is used."""

    def __init__(self, buffer: memoryview, position: int, where: str) -> None:
        self.position = position
        self._buffer = buffer
        self._where = where

    def variable(self) -> Array:
        version = self._number("<I", "the version")
        if version != 0:
            raise self._damaged(f"has version {version}, expected 0")
        levels = self._number("<Q", "the number of LoD levels")
        if levels > _MAX_LOD_LEVELS:
            raise self._damaged(f"declares {levels} LoD levels")
        for _ in range(levels):
            self._take(self._number("<Q", "the size of a LoD level"), "a LoD level")
        version = self._number("<I", "the version of the tensor")
        if version != 0:
            raise self._damaged(f"has a tensor of version {version}, expected 0")
        size = self._number("<i", "the length of the description")
        if size < 0:
            raise self._damaged(f"declares a description of {size} bytes")
        dtype, dims = self._description(bytes(self._take(size, "the description")))
        count = math.prod(dims)
        data = self._take(count * dtype.itemsize, f"{dtype} elements of shape {list(dims)}")
        flat = np.frombuffer(data, dtype) if count else np.empty(0, dtype)
        if dtype == np.bool_:
            # Any byte may stand there; NumPy's own truth values are 0 and 1.
            flat = flat.view(np.uint8) != 0
        flat.flags.writeable = False
        try:
            return flat.reshape(dims)
        except ValueError as error:
            raise self._damaged(f"has the shape {list(dims)}, which no array has") from error

    def _description(self, content: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
        code: int | None = None
        dims: list[int] = []
        position = 0
        while position < len(content):
            key, position = self._varint(content, position)
            field, wire = key >> 3, key & 7
            if wire == _VARINT and field in (1, 2):
                number, position = self._varint(content, position)
                if field == 1:
                    code = number
                else:
                    dims.append(number)
            elif wire == _BYTES and field == 2:
                length, position = self._varint(content, position)
                end = position + length
                if end > len(content):
                    raise self._damaged("has a description that ends within its dimensions")
                while position < end:
                    number, position = self._varint(content, position)
                    dims.append(number)
            else:
                raise self._damaged(f"has field {field} of wire type {wire} in its description")
        if code is None or code not in _DTYPES:
            raise self._damaged(f"has dtype number {code}, which no dtype of Paddle has")
        if len(dims) > _MAX_DIMS or any(dim < 0 for dim in dims):
            raise self._damaged(f"has the shape {dims[:_MAX_DIMS]}")
        return _DTYPES[code], tuple(dims)

    def _varint(self, content: bytes, position: int) -> tuple[int, int]:
        number = 0
        for shift in range(0, 70, 7):
            if position >= len(content):
                raise self._damaged("has a description that ends within a number")
            byte = content[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                number &= (1 << 64) - 1
                # int64: the upper half is negative.
                return number - (1 << 64) if number >> 63 else number, position
        raise self._damaged("has a number of more than ten bytes in its description")

    def _number(self, layout: str, what: str) -> int:
        value: int = struct.unpack(layout, self._take(struct.calcsize(layout), what))[0]
        return value

    def _take(self, size: int, what: str) -> memoryview:
        left = len(self._buffer) - self.position
        if size > left:
            raise self._damaged(f"ends within {what}: {size} byte(s) expected, {left} left")
        start, self.position = self.position, self.position + size
        return self._buffer[start : self.position]

    def _damaged(self, what: str) -> ModelFileError:
        return ModelFileError(
            f"{self._where} {what}. The file is truncated or damaged, or belongs to another "
            "program; copy it anew or save the model again."
        )


def check_shapes(
    arrays: Mapping[str, Array],
    declared: Mapping[str, tuple[Sequence[int], str]],
    where: str,
) -> None:
    """Compares stored variables with what the program declares.

    Args:
        arrays: what was read.
        declared: (dims, -1 for any; dtype) by name.
        where: the parameter file, for the message.

    Raises:
        ModelFileError: shapes or dtypes differ; every parameter is listed.
    """
    wrong = []
    for name, (dims, dtype) in sorted(declared.items()):
        array = arrays[name]
        same = len(dims) == array.ndim and all(
            dim in (-1, size) for dim, size in zip(dims, array.shape, strict=True)
        )
        if not same or array.dtype.name != dtype:
            wrong.append(
                f"{name!r} is {array.dtype.name}{list(array.shape)} in the file and "
                f"{dtype}{list(dims)} in the program"
            )
    if wrong:
        raise ModelFileError(
            f"{where}: {len(wrong)} parameter(s) contradict the program: {'; '.join(wrong[:10])}"
            f"{'; ...' if len(wrong) > 10 else ''}. Take the parameter file that was saved "
            "together with this program."
        )
