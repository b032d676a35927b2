"""ResNet-50's layers, initial weights and one batch: what every engine of the benchmark shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

LEARNING_RATE, MOMENTUM = 1e-4, 0.9
NORM_EPSILON, NORM_MOMENTUM = 1e-5, 0.9

# Of the last batch norm in a block. With 1 rounding grows from block to block, and losses of two
# engines are no longer alike after a few steps.
LAST_SCALE = 0.1


@dataclass(frozen=True, slots=True)
class Config:
    """The network's input.

    Attributes:
        batch: images in a batch.
        image: their height and width in pixels.
        classes: of the labels.
    """

    batch: int = 8
    image: int = 224
    classes: int = 1000


class Convolution(NamedTuple):
    """A convolution without bias, behind which a batch norm stands.

    Attributes:
        channels: of the data.
        results: channels of the result.
        kernel: its height and width.
        stride: of the window; the padding is (kernel - 1) / 2.
    """

    channels: int
    results: int
    kernel: int
    stride: int


class Block(NamedTuple):
    """A residual block; Paddle numbers its convolutions in this order.

    Attributes:
        shortcut: of the block's input, where it changes its shape.
        path: the three behind each other.
    """

    shortcut: Convolution | None
    path: tuple[Convolution, Convolution, Convolution]


STEM = Convolution(3, 64, 7, 2)


def blocks() -> Iterator[Block]:
    """The residual blocks, which follow the stem and its max pooling."""
    channels = STEM.results
    for group, count in enumerate((3, 4, 6, 3)):
        width = 64 << group
        for number in range(count):
            stride = 2 if group and not number else 1
            yield Block(
                None if number else Convolution(channels, 4 * width, 1, stride),
                (
                    Convolution(channels, width, 1, 1),
                    Convolution(width, width, 3, stride),
                    Convolution(width, 4 * width, 1, 1),
                ),
            )
            channels = 4 * width


def _convolutions() -> Iterator[tuple[Convolution, float]]:
    """All of them, as Paddle numbers them, with the scale of the batch norm behind each."""
    yield STEM, 1.0
    for block in blocks():
        if block.shortcut is not None:
            yield block.shortcut, 1.0
        yield from zip(block.path, (1.0, 1.0, LAST_SCALE), strict=True)


def initial_weights(config: Config) -> Iterator[tuple[str, Array]]:
    """Name, as Paddle's, and value of every parameter: kernels have He's deviations.

    Kernels are [M, C, height, width], the last layer's matrix is [in, out]. Biases are random, so
    that no gradient is left out of the comparison of losses.
    """
    random = np.random.default_rng(2024)

    def normal(shape: tuple[int, ...], deviation: float) -> Array:
        return random.standard_normal(shape, np.float32) * np.float32(deviation)

    results = 0
    for number, (convolution, scale) in enumerate(_convolutions()):
        channels, results, kernel, _ = convolution
        deviation = (2 / (results * kernel**2)) ** 0.5
        yield f"conv2d_{number}.w_0", normal((results, channels, kernel, kernel), deviation)
        yield f"batch_norm2d_{number}.w_0", np.full(results, scale, np.float32)
        yield f"batch_norm2d_{number}.b_0", normal((results,), 0.02)
    yield "linear_0.w_0", normal((results, config.classes), 0.02)
    yield "linear_0.b_0", normal((config.classes,), 0.02)


def make_batch(config: Config) -> dict[str, Array]:
    """``image`` [batch, 3, height, width] float32, ``label`` [batch] int64; the same everywhere."""
    random = np.random.default_rng(2024)
    return {
        "image": random.standard_normal((config.batch, 3, config.image, config.image), np.float32),
        "label": random.integers(0, config.classes, config.batch),
    }


def step_flops(config: Config) -> int:
    """Floating-point operations of the convolutions and the last product in one training step.

    Backward counts twice forward, but for the stem, whose data needs no gradient.
    """

    def result(convolution: Convolution, size: int) -> tuple[int, int]:
        channels, results, kernel, stride = convolution
        size = (size - 1) // stride + 1
        return size, 2 * size**2 * results * channels * kernel**2

    size, operations = result(STEM, config.image)
    total = 2 * operations
    size = (size - 1) // 2 + 1
    classes_from = 0
    for block in blocks():
        if block.shortcut is not None:
            total += 3 * result(block.shortcut, size)[1]
        for convolution in block.path:
            size, operations = result(convolution, size)
            total += 3 * operations
        classes_from = block.path[-1].results
    return config.batch * (total + 3 * 2 * classes_from * config.classes)
