"""Files of pretraining samples, hdf5 or tfrecord by their name: written, read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from examples.bert import samples_hdf5, tfrecord_samples
from examples.bert.files import DataError
from examples.bert.samples import KEYS, Arrays

HDF5_SUFFIXES = (".hdf5", ".h5")
TFRECORD_SUFFIXES = (".tfrecord", ".tfrecords")


@dataclass(frozen=True)
class SampleShape:
    """How many samples a file has, of how many tokens and slots for masked words."""

    samples: int
    sequence_length: int
    max_predictions: int


@dataclass(frozen=True)
class PretrainingFiles:
    """The files a pretraining reads; ``held_out`` is None where a folder has none."""

    training: tuple[Path, ...]
    held_out: Path | None


def find_files(path: Path) -> PretrainingFiles:
    """The sample files of a folder, "training" or "held_out" or "test" in their names; or one file.

    Raises:
        DataError: there is no such folder, or no training file in it.
    """
    endings = HDF5_SUFFIXES + TFRECORD_SUFFIXES
    paths = [path] if path.is_file() else sorted(path.glob("*"))
    files = [file for file in paths if file.suffix in endings]
    training = tuple(file for file in files if "training" in file.name)
    if not training:
        raise DataError(
            f'{path}: expected files with "training" in their names that end in one of '
            f"{', '.join(endings)}, found none; python -m examples.bert.prepare makes them"
        )
    others = [file for file in files if file not in training]
    held_out = [file for file in others if "held_out" in file.name or "test" in file.name]
    return PretrainingFiles(training, held_out[0] if held_out else None)


def write_samples(path: Path, arrays: Arrays) -> None:
    """Write samples in the format of the name's ending, whole or not at all."""
    if _is_tfrecord(path):
        tfrecord_samples.write(path, arrays)
    else:
        samples_hdf5.write(path, arrays)


def describe_samples(path: Path) -> SampleShape:
    """Number and shape of the samples, without reading all of them.

    Raises:
        DataError: the file is missing, damaged or of another layout.
    """
    shape = tfrecord_samples.shape(path) if _is_tfrecord(path) else samples_hdf5.shape(path)
    return SampleShape(*shape)


def read_samples(path: Path, vocabulary_rows: int | None = None) -> Arrays:
    """All samples of a file, int32 arrays under :data:`KEYS`, checked.

    Raises:
        DataError: the file is missing, damaged or of another layout; an id is not below
            ``vocabulary_rows``.
    """
    arrays = tfrecord_samples.read(path) if _is_tfrecord(path) else samples_hdf5.read(path)
    _check(path, arrays, vocabulary_rows)
    return arrays


def _is_tfrecord(path: Path) -> bool:
    if path.suffix in TFRECORD_SUFFIXES:
        return True
    if path.suffix in HDF5_SUFFIXES:
        return False
    endings = ", ".join(HDF5_SUFFIXES + TFRECORD_SUFFIXES)
    raise DataError(f"{path}: expected a name that ends in one of {endings}")


def _check(path: Path, arrays: Arrays, vocabulary_rows: int | None) -> None:
    """Shapes agree, and every number is what the network can take."""
    samples, length = arrays["input_ids"].shape
    slots = arrays["masked_lm_ids"].shape[1]
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(KEYS[:3], (samples, length))
    shapes |= dict.fromkeys(KEYS[3:5], (samples, slots)) | {KEYS[5]: (samples,)}
    for key, shape in shapes.items():
        if arrays[key].shape != shape:
            raise DataError(
                f"{path}: {key}: expected shape {list(shape)}, got {list(arrays[key].shape)}"
            )
    limits = {
        "input_ids": vocabulary_rows,
        "masked_lm_ids": vocabulary_rows,
        "input_mask": 2,
        "segment_ids": 2,
        "masked_lm_positions": length,
        "next_sentence_labels": 2,
    }
    for key, limit in limits.items():
        if limit is None or arrays[key].size == 0:
            continue
        low, high = int(arrays[key].min()), int(arrays[key].max())
        if low < 0 or high >= limit:
            hint = (
                "; prepare the data with the vocabulary of this network, or give it more rows"
                if key.endswith("_ids") and key != "segment_ids"
                else ""
            )
            raise DataError(
                f"{path}: {key}: expected values from 0 to {limit - 1}, "
                f"got {low if low < 0 else high}{hint}"
            )
