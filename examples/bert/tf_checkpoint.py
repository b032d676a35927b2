"""TensorFlow checkpoints (`NAME.index`, `NAME.data-00000-of-00001`), read without TensorFlow.

The index is a LevelDB table from names to protocol buffers that say where in the data files a
tensor lies; the data files are the tensors' bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.bert.crc32c import crc32c, masked
from examples.bert.files import DataError

MAGIC = 0xDB4775248B80FB57  # of a LevelDB table
FOOTER = 48
TYPES: dict[int, type[np.generic]] = {
    1: np.float32,
    2: np.float64,
    3: np.int32,
    9: np.int64,
    19: np.float16,
}


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies: its type's number, shape, data file, first byte, bytes, checksum."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    is_sliced: bool


class TensorFlowCheckpoint:
    """A checkpoint's tensors by name; ``prefix`` is the path without `.index`.

    Raises:
        DataError: a file is missing, damaged, or not of this format.
    """

    def __init__(self, prefix: Path) -> None:
        self._prefix = Path(str(prefix).removesuffix(".index"))
        index = self._prefix.with_name(self._prefix.name + ".index")
        if not index.is_file():
            raise DataError(
                f"{index}: expected the index of a TensorFlow checkpoint, but there is no such "
                "file; --tf_checkpoint takes the path without .index, like bert_model.ckpt"
            )
        data = index.read_bytes()
        try:
            records = dict(_table(data))
            header = dict(_fields(records.pop(b"")))
            self._entries = {name.decode(): _entry(value) for name, value in records.items()}
        except DataError as error:
            raise DataError(f"{index}: {error}") from error
        except (IndexError, KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"{index}: expected the index of a TensorFlow checkpoint; the file is damaged or "
                f"of another kind ({len(data)} bytes): {error!r}"
            ) from error
        self._shards = int(header.get(1, 1))
        if header.get(2, 0) != 0:
            raise DataError(f"{index}: expected little-endian data, got big-endian")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor."""
        return {name: entry.shape for name, entry in self._entries.items()}

    def read(self, name: str) -> NDArray[Any]:
        """One tensor, its checksum compared.

        Raises:
            DataError: the tensor's bytes are missing or damaged, or its type is not a number's.
        """
        entry = self._entries[name]
        if entry.is_sliced or entry.dtype not in TYPES:
            what = "in slices" if entry.is_sliced else f"of type number {entry.dtype}"
            raise DataError(f"{self._prefix}: tensor {name!r} is stored {what}, which is not read")
        file = f"{self._prefix.name}.data-{entry.shard:05d}-of-{self._shards:05d}"
        path = self._prefix.with_name(file)
        dtype = np.dtype(TYPES[entry.dtype])
        expected = int(np.prod(entry.shape, dtype=np.int64)) * dtype.itemsize
        if not path.is_file():
            raise DataError(f"{path}: expected the data of {name!r}, but there is no such file")
        with path.open("rb") as stream:
            stream.seek(entry.offset)
            data = stream.read(entry.size)
        if len(data) != expected:
            raise DataError(
                f"{path}: tensor {name!r} of shape {list(entry.shape)}: expected {expected} bytes "
                f"at {entry.offset}, got {len(data)}; the file is cut off or of another checkpoint"
            )
        if masked(crc32c(data)) != entry.checksum:
            raise DataError(f"{path}: tensor {name!r} is damaged: its checksum is another")
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(entry.shape)


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a LevelDB table."""
    if len(data) < FOOTER or int.from_bytes(data[-8:], "little") != MAGIC:
        raise DataError("expected a LevelDB table, as the index of a TensorFlow checkpoint is")
    footer = data[-FOOTER:]
    _, at = _handle(footer, 0)
    index, _ = _handle(footer, at)
    for _, value in _block(data, index):
        handle, _ = _handle(value, 0)
        yield from _block(data, handle)


def _block(data: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of one block; each key shares a beginning with the one before it."""
    offset, size = handle
    content = data[offset : offset + size]
    trailer = data[offset + size : offset + size + 5]
    if len(content) != size or len(trailer) != 5:
        raise DataError(f"expected {size + 5} bytes at {offset}; the file is cut off")
    if masked(crc32c(content + trailer[:1])) != int.from_bytes(trailer[1:], "little"):
        raise DataError(f"the block at {offset} is damaged: its checksum is another")
    if trailer[0] != 0:
        raise DataError(f"the block at {offset} is compressed, which is not read")
    restarts = int.from_bytes(content[-4:], "little")
    end = len(content) - 4 * (restarts + 1)
    at, key = 0, b""
    while at < end:
        shared, at = _varint(content, at)
        rest, at = _varint(content, at)
        length, at = _varint(content, at)
        key = key[:shared] + content[at : at + rest]
        at += rest
        yield key, content[at : at + length]
        at += length


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return (offset, size), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = data[at]
        value |= (octet & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if octet < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of a protocol buffer's fields."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, value


def _entry(data: bytes) -> Entry:
    values: dict[int, Any] = {}
    shape: list[int] = []
    for number, value in _fields(data):
        if number == 2:
            dimensions = [v for n, v in _fields(value) if n == 2]
            shape = [int(dict(_fields(d)).get(1, 0)) for d in dimensions]
        values[number] = value
    get = values.get
    return Entry(
        int(get(1, 0)),
        tuple(shape),
        int(get(3, 0)),
        int(get(4, 0)),
        int(get(5, 0)),
        int(get(6, 0)),
        7 in values,
    )
