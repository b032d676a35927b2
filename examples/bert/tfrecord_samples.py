"""Pretraining samples in TFRecord files: one tf.Example each, under the names of BERT's own script.

``create_pretraining_data.py`` of Google's BERT, which NVIDIA's TensorFlow data preparation runs,
writes these features: ``input_ids``, ``input_mask``, ``segment_ids``, ``masked_lm_positions``,
``masked_lm_ids``, ``next_sentence_labels`` as int64 and ``masked_lm_weights`` as float.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from examples.bert.files import DataError, writing
from examples.bert.samples import KEYS, Arrays
from examples.bert.tfrecord import count_records, first_record, read_records, write_records

WEIGHTS = "masked_lm_weights"


def write(path: Path, arrays: Arrays) -> None:
    """Write one file; it appears whole or not at all, and the same samples give the same bytes."""
    with writing(path) as stream:
        write_records(stream, _examples(arrays))


def read(path: Path) -> Arrays:
    """All samples as int32 arrays; a slot of weight 0 has the masked word 0.

    Raises:
        DataError: the file is missing, damaged or of another layout.
    """
    records = read_records(path)
    if not records:
        raise DataError(f"{path}: expected records, the file is empty")
    rows: dict[str, list[Any]] = {key: [] for key in (*KEYS, WEIGHTS)}
    for number, record in enumerate(records):
        for key, values in _features(path, number, record).items():
            if rows[key] and len(values) != len(rows[key][0]):
                raise DataError(
                    f"{path}: record {number}: {key}: expected {len(rows[key][0])} values as in "
                    f"record 0, got {len(values)}"
                )
            rows[key].append(values)
    arrays = {key: np.array(rows[key], np.int64) for key in KEYS}
    weights = np.array(rows[WEIGHTS], np.float32)
    if weights.shape != arrays["masked_lm_ids"].shape:
        raise DataError(f"{path}: {WEIGHTS}: expected as many values as masked_lm_ids has")
    arrays["masked_lm_ids"] = np.where(weights != 0, arrays["masked_lm_ids"], 0)
    arrays["next_sentence_labels"] = arrays["next_sentence_labels"][:, 0]
    return {key: array.astype(np.int32) for key, array in arrays.items()}


def shape(path: Path) -> tuple[int, int, int]:
    """Samples, tokens of a sample, slots for masked words, from the first record and the lengths.

    Raises:
        DataError: the file is missing, damaged or of another layout.
    """
    features = _features(path, 0, first_record(path))
    return count_records(path), len(features["input_ids"]), len(features["masked_lm_ids"])


def _examples(arrays: Arrays) -> Iterator[bytes]:
    example_type = _example_type()
    lists = {key: arrays[key].tolist() for key in KEYS}
    weights = (arrays["masked_lm_ids"] != 0).astype(np.float32).tolist()
    for row, label in enumerate(lists["next_sentence_labels"]):
        example = example_type()
        feature = example.features.feature
        for key in KEYS[:-1]:
            feature[key].int64_list.value.extend(lists[key][row])
        feature[KEYS[-1]].int64_list.value.append(label)
        feature[WEIGHTS].float_list.value.extend(weights[row])
        yield example.SerializeToString(deterministic=True)


def _features(path: Path, number: int, record: bytes) -> dict[str, Any]:
    """The values of one record, by feature."""
    example = _example_type()()
    try:
        example.ParseFromString(record)
    except DecodeError as error:
        raise DataError(f"{path}: record {number}: expected a tf.Example: {error}") from error
    feature = example.features.feature
    missing = [key for key in (*KEYS, WEIGHTS) if key not in feature]
    if missing:
        raise DataError(
            f"{path}: record {number}: expected the features of BERT's pretraining data, "
            f"missing: {', '.join(missing)}"
        )
    values = {key: feature[key].int64_list.value for key in KEYS}
    values[WEIGHTS] = feature[WEIGHTS].float_list.value
    empty = [key for key, value in values.items() if not value]
    if empty:
        raise DataError(
            f"{path}: record {number}: expected integers (floats in {WEIGHTS}), "
            f"got none in: {', '.join(empty)}"
        )
    return values


@cache
def _example_type() -> Any:
    """The message type tf.Example, of tensorflow/core/example/example.proto and feature.proto."""
    package = "paddle_ipu.tf"
    file = descriptor_pb2.FileDescriptorProto(
        name="paddle_ipu/example.proto", package=package, syntax="proto3"
    )
    kind = descriptor_pb2.FieldDescriptorProto
    one, repeated = kind.LABEL_OPTIONAL, kind.LABEL_REPEATED

    def message(messages: Any, name: str, *fields: tuple[str, Any, Any]) -> Any:
        """Add a message; the type of a field is a scalar's number or another message's name."""
        descriptor = messages.add(name=name)
        for number, (field, label, of) in enumerate(fields, 1):
            is_message = isinstance(of, str)
            descriptor.field.add(
                name=field,
                number=number,
                label=label,
                type=kind.TYPE_MESSAGE if is_message else of,
                type_name=f".{package}.{of}" if is_message else None,
            )
        return descriptor

    messages = file.message_type
    message(messages, "BytesList", ("value", repeated, kind.TYPE_BYTES))
    message(messages, "FloatList", ("value", repeated, kind.TYPE_FLOAT))
    message(messages, "Int64List", ("value", repeated, kind.TYPE_INT64))
    lists = (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))
    message(messages, "Feature", *((field, one, of) for field, of in lists))
    features = message(messages, "Features", ("feature", repeated, "Features.FeatureEntry"))
    entry = message(
        features.nested_type,
        "FeatureEntry",
        ("key", one, kind.TYPE_STRING),
        ("value", one, "Feature"),
    )
    entry.options.map_entry = True
    message(messages, "Example", ("features", one, "Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Example"))
