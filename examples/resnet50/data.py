"""Images to train on: patterns made up here, or files in the format of MNIST and Fashion-MNIST."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLASSES = 10

Pixels = NDArray[np.float32]
Labels = NDArray[np.int64]


def striped_patterns(count: int, size: int, seed: int) -> tuple[Pixels, Labels]:
    """(pixels ``[count, size, size]``, labels ``[count]``): stripes of ten kinds under noise.

    A class is one of five directions and of two widths. Where the stripes begin and how strong they
    are is random, so that no pixel tells a class: convolutions have to find the direction.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.int64) % CLASSES
    rng.shuffle(labels)
    angle = (labels % 5) * math.pi / 5 + rng.normal(0, 0.05, count)
    waves = np.where(labels < 5, 3.0, 6.0)
    rows, columns = np.mgrid[:size, :size] / size
    along = (np.cos(angle)[:, None, None] * rows + np.sin(angle)[:, None, None] * columns) * waves[
        :, None, None
    ] + rng.random((count, 1, 1))
    strength = rng.uniform(0.5, 1.0, (count, 1, 1))
    pixels = np.sin(2 * math.pi * along) * strength + rng.normal(0, 0.5, along.shape)
    return pixels.astype(np.float32), labels


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file in the idx format, gzipped or not, in the shape that it states.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not an idx file of bytes, or is shorter or longer than it states.
    """
    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (EOFError, OSError) as error:
        raise ValueError(f"{path}: damaged gzip file; {error}") from error
    rank = content[3] if len(content) >= 4 else 0
    if content[:3] != b"\x00\x00\x08" or rank == 0 or len(content) < 4 + 4 * rank:
        raise ValueError(f"{path}: expected an idx file of bytes, as MNIST's are")
    shape = np.frombuffer(content, ">u4", rank, 4).tolist()
    values = np.frombuffer(content, np.uint8, -1, 4 + 4 * rank)
    if values.size != math.prod(shape):
        raise ValueError(f"{path}: expected {shape} bytes, as it states, got {values.size}")
    return values.reshape(shape)


def read_images(images: Path, labels: Path, size: int) -> tuple[Pixels, Labels]:
    """Images of idx files, normalised, with a border of zeros up to ``size``.

    Raises:
        ValueError: the files do not belong together, or the images are larger than ``size``.
    """
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or classes.shape != pixels.shape[:1]:
        raise ValueError(
            f"{images} and {labels}: expected [n, rows, columns] and [n], "
            f"got {list(pixels.shape)} and {list(classes.shape)}"
        )
    if classes.size and classes.max() >= CLASSES:
        raise ValueError(f"{labels}: expected classes below {CLASSES}, got {classes.max()}")
    free = [size - side for side in pixels.shape[1:]]
    if min(free) < 0:
        raise ValueError(
            f"--image-size: expected at least the {max(pixels.shape[1:])} pixels of {images}, "
            f"got {size}"
        )
    borders = [(0, 0), *((side // 2, side - side // 2) for side in free)]
    scaled = (pixels.astype(np.float32) - pixels.mean()) / max(pixels.std(), 1e-6)
    return np.pad(scaled.astype(np.float32), borders), classes.astype(np.int64)


def feed(pixels: Pixels, labels: Labels) -> dict[str, NDArray[np.float32] | Labels]:
    """What the programs read: three channels of the same grey, labels with an axis of one."""
    return {"image": np.repeat(pixels[:, None], 3, axis=1), "label": labels[:, None]}


def batches(
    pixels: Pixels, labels: Labels, rows: int, seed: int
) -> Iterator[dict[str, NDArray[np.float32] | Labels]]:
    """Endless feeds of ``rows`` images, in an order of its own for each pass."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(labels))
        for first in range(0, len(order) - rows + 1, rows):
            chosen = order[first : first + rows]
            yield feed(pixels[chosen], labels[chosen])
