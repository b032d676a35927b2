"""Pretraining samples in hdf5 files, as NVIDIA's scripts for BERT lay them out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from examples.bert.files import DataError, writing
from examples.bert.samples import KEYS, Arrays


def write(path: Path, arrays: Arrays) -> None:
    """Write one file; it appears whole or not at all, and the same samples give the same bytes."""
    import h5py

    # Made in memory, so that only plain writes, with plain errors, reach the disk.
    with h5py.File(str(path), "w", driver="core", backing_store=False) as file:
        for key in KEYS:
            file.create_dataset(
                key, data=arrays[key], compression="gzip", compression_opts=1, track_times=False
            )
        file.flush()
        image: bytes = file.id.get_file_image()
    with writing(path) as stream:
        stream.write(image)


def read(path: Path) -> Arrays:
    """All samples as int32 arrays.

    Raises:
        DataError: the file is missing, damaged or of another layout.
    """
    with _opened(path) as file:
        arrays = {key: np.asarray(file[key][...], np.int32) for key in KEYS}
    arrays["next_sentence_labels"] = arrays["next_sentence_labels"].reshape(-1)
    return arrays


def shape(path: Path) -> tuple[int, int, int]:
    """Samples, tokens of a sample, slots for masked words, without reading them.

    Raises:
        DataError: the file is missing, damaged or of another layout.
    """
    with _opened(path) as file:
        ids, labels = file["input_ids"], file["masked_lm_ids"]
        return ids.shape[0], ids.shape[1], labels.shape[1]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import h5py

    if not path.is_file():
        raise DataError(f"{path}: expected a file of pretraining samples, there is none")
    try:
        with h5py.File(path, "r") as file:
            missing = [key for key in KEYS if key not in file]
            if missing:
                raise DataError(
                    f"{path}: expected the keys of NVIDIA's BERT layout, "
                    f"missing: {', '.join(missing)}"
                )
            for key in KEYS:
                wanted = 1 if key == "next_sentence_labels" else 2
                data = file[key]
                if not isinstance(data, h5py.Dataset) or data.dtype.kind not in "iu":
                    raise DataError(f"{path}: {key}: expected integers, got {data}")
                if data.ndim != wanted and data.shape[1:] != (1,):
                    raise DataError(
                        f"{path}: {key}: expected {wanted} axes, got {list(data.shape)}"
                    )
            yield file
    except OSError as error:
        raise DataError(f"{path}: the hdf5 file is damaged or cut off: {error}") from error
