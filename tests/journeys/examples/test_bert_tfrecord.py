"""TFRecord files of pretraining samples, against bytes written by hand from the specification."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google_crc32c")

from examples.bert.crc32c import crc32c, masked
from examples.bert.files import DataError
from examples.bert.sample_files import SampleShape, describe_samples, read_samples, write_samples
from examples.bert.samples import KEYS, Arrays
from examples.bert.tfrecord import count_records, read_records, write_records


def checksum(content: bytes) -> int:
    """The Castagnoli checksum bit by bit: reflected polynomial 0x82F63B78."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked_checksum(content: bytes) -> bytes:
    crc = checksum(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32)


def framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + masked_checksum(length) + record + masked_checksum(record)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf, short enough for one byte of length."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def feature(name: str, content: bytes, kind: int = 3) -> bytes:
    """A map entry of tf.Features; ``kind`` 3 is an int64 list, 2 a float list."""
    value = field(kind, field(1, content))
    return field(1, field(1, name.encode()) + field(2, value))


# 300 is the varint ac 02; the weights are 1.0 and 0.0.
FEATURES = {
    "input_ids": feature("input_ids", b"\x02\xac\x02\x04\x03\x00"),
    "input_mask": feature("input_mask", b"\x01\x01\x01\x01\x00"),
    "masked_lm_ids": feature("masked_lm_ids", b"\xac\x02\x07"),
    "masked_lm_positions": feature("masked_lm_positions", b"\x02\x00"),
    "masked_lm_weights": feature("masked_lm_weights", struct.pack("<2f", 1.0, 0.0), kind=2),
    "next_sentence_labels": feature("next_sentence_labels", b"\x01"),
    "segment_ids": feature("segment_ids", b"\x00\x00\x01\x01\x00"),
}


def example(**changes: bytes) -> bytes:
    """A tf.Example of FEATURES with some replaced, its length a varint of two bytes."""
    body = b"".join((FEATURES | changes).values())
    return b"\x0a" + bytes([len(body) & 127 | 128, len(body) >> 7]) + body


HAND_WRITTEN = example()
SAMPLE: Arrays = {
    "input_ids": np.array([[2, 300, 4, 3, 0]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1, 0]], np.int32),
    "segment_ids": np.array([[0, 0, 1, 1, 0]], np.int32),
    "masked_lm_positions": np.array([[2, 0]], np.int32),
    "masked_lm_ids": np.array([[300, 0]], np.int32),
    "next_sentence_labels": np.array([1], np.int32),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "training.tfrecord"


@pytest.mark.parametrize(
    ("content", "crc"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next two: RFC 3720, appendix B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksums_are_castagnoli_s_masked(content: bytes, crc: int) -> None:
    assert checksum(content) == crc32c(content) == crc
    rotated = (crc >> 15) | ((crc & 0x7FFF) << 17)
    assert masked(crc) == (rotated + 0xA282EAD8) % 2**32


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_records_are_framed_as_specified(records: list[bytes]) -> None:
    stream = io.BytesIO()
    write_records(stream, records)
    assert stream.getvalue() == b"".join(map(framed, records))


def test_a_hand_written_file_is_read(path: Path) -> None:
    path.write_bytes(framed(HAND_WRITTEN) * 3)
    assert read_records(path) == [HAND_WRITTEN] * 3
    assert count_records(path) == 3
    assert describe_samples(path) == SampleShape(3, 5, 2)
    arrays = read_samples(path)
    for key in KEYS:
        # The second masked word has weight 0: it is none.
        np.testing.assert_array_equal(arrays[key], np.repeat(SAMPLE[key], 3, axis=0), key)
        assert arrays[key].dtype == np.int32


def test_the_written_bytes_are_the_specification_s(path: Path) -> None:
    write_samples(path, SAMPLE)
    expected = example(masked_lm_ids=feature("masked_lm_ids", b"\xac\x02\x00"))
    assert path.read_bytes() == framed(expected)


def test_a_damaged_record_is_named(path: Path) -> None:
    good = framed(HAND_WRITTEN)
    bad = bytearray(good * 2)
    bad[len(good) + 40] ^= 1
    path.write_bytes(bad)
    with pytest.raises(DataError, match=r"training\.tfrecord: record 1 is damaged: .* content"):
        read_samples(path)
    bad = bytearray(good * 2)
    bad[len(good)] ^= 1
    path.write_bytes(bad)
    with pytest.raises(DataError, match=r"training\.tfrecord: record 1 is damaged: .* length"):
        describe_samples(path)


@pytest.mark.parametrize("kept", [5, 30])
def test_a_file_that_breaks_off_is_named_with_its_record(path: Path, kept: int) -> None:
    good = framed(HAND_WRITTEN)
    path.write_bytes(good + good[:kept])
    with pytest.raises(DataError, match=r"training\.tfrecord: the file is cut off in record 1"):
        describe_samples(path)


def test_files_that_are_no_samples_are_refused(path: Path) -> None:
    with pytest.raises(DataError, match=r"training\.tfrecord: cannot read .*No such file"):
        read_samples(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="the file is empty"):
        describe_samples(path)
    with pytest.raises(DataError, match="the file is empty"):
        read_samples(path)
    path.write_bytes(b"\x1f\x8b\x08rest")
    with pytest.raises(DataError, match="got gzip; unpack"):
        read_samples(path)
    path.write_bytes(framed(b"\xff\xff"))
    with pytest.raises(DataError, match=r"record 0: expected a tf\.Example"):
        read_samples(path)
    path.write_bytes(framed(example(input_mask=b"", segment_ids=b"")))
    with pytest.raises(DataError, match="record 0: .* missing: input_mask, segment_ids"):
        read_samples(path)
    path.write_bytes(framed(example(input_mask=feature("input_mask", b"\x01" * 5, kind=1))))
    with pytest.raises(DataError, match=r"record 0: expected integers .* got none in: input_mask"):
        read_samples(path)
    other_length = example(segment_ids=feature("segment_ids", b"\x00\x01"))
    path.write_bytes(framed(HAND_WRITTEN) + framed(other_length))
    with pytest.raises(DataError, match="record 1: segment_ids: expected 5 values .* got 2"):
        read_samples(path)
    path.write_bytes(framed(other_length))
    with pytest.raises(DataError, match=r"segment_ids: expected shape \[1, 5\], got \[1, 2\]"):
        read_samples(path)
    few = example(masked_lm_weights=feature("masked_lm_weights", bytes(4), kind=2))
    path.write_bytes(framed(few))
    with pytest.raises(DataError, match="masked_lm_weights: expected as many values"):
        read_samples(path)
