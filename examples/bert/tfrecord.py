"""TensorFlow's TFRecord files: a run of byte strings, each with checksums of length and content.

One record is the length (8 bytes, little-endian), its checksum (4 bytes), the content and the
content's checksum. The format is TensorFlow's, tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from examples.bert.crc32c import crc32c, masked
from examples.bert.files import DataError

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_GZIP = b"\x1f\x8b"


def write_records(stream: BinaryIO, records: Iterable[bytes]) -> None:
    """Write each record with its length and checksums."""
    for record in records:
        length = struct.pack("<Q", len(record))
        stream.write(length + _CHECKSUM.pack(masked(crc32c(length))))
        stream.write(record + _CHECKSUM.pack(masked(crc32c(record))))


def read_records(path: Path) -> list[bytes]:
    """All records of a file, their checksums compared.

    Raises:
        DataError: the file is missing, cut off or damaged; the message counts records from 0.
    """
    content, spans = _spans(path)
    records = []
    for number, (start, end) in enumerate(spans):
        record = content[start:end]
        _compare(path, number, "content", record, content[end : end + 4])
        records.append(record)
    return records


def count_records(path: Path) -> int:
    """How many records a file has: lengths are checked and followed, contents not read.

    Raises:
        DataError: the file is missing or cut off, or a length is damaged.
    """
    return len(_spans(path)[1])


def first_record(path: Path) -> bytes:
    """The first record of a file.

    Raises:
        DataError: the file is missing, empty or damaged.
    """
    content, spans = _spans(path, most=1)
    if not spans:
        raise DataError(f"{path}: expected records, the file is empty")
    start, end = spans[0]
    _compare(path, 0, "content", content[start:end], content[end : end + 4])
    return content[start:end]


def _spans(path: Path, most: int | None = None) -> tuple[bytes | mmap.mmap, list[tuple[int, int]]]:
    """The file's bytes, and begin and end of each record's content in them."""
    try:
        with path.open("rb") as file:
            empty = file.seek(0, 2) == 0
            content = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise DataError(f"{path}: cannot read the tfrecord file: {error.strerror}") from error
    if content[:2] == _GZIP:
        raise DataError(f"{path}: expected plain tfrecords, got gzip; unpack the file first")
    size, place = len(content), 0
    spans: list[tuple[int, int]] = []
    while place < size and (most is None or len(spans) < most):
        number = len(spans)
        if place + _HEADER.size > size:
            raise _cut_off(path, number, place + _HEADER.size, size)
        _compare(
            path, number, "length", content[place : place + 8], content[place + 8 : place + 12]
        )
        (length, _) = _HEADER.unpack_from(content, place)
        start = place + _HEADER.size
        place = start + length + _CHECKSUM.size
        if place > size:
            raise _cut_off(path, number, place, size)
        spans.append((start, start + length))
    return content, spans


def _compare(path: Path, number: int, what: str, content: bytes, stored: bytes) -> None:
    (expected,) = _CHECKSUM.unpack(stored)
    got = masked(crc32c(content))
    if got != expected:
        raise DataError(
            f"{path}: record {number} is damaged: the checksum of its {what} is {got:#010x}, "
            f"the file says {expected:#010x}"
        )


def _cut_off(path: Path, number: int, needed: int, size: int) -> DataError:
    return DataError(
        f"{path}: the file is cut off in record {number}: expected at least {needed} bytes, "
        f"got {size}"
    )
