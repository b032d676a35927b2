"""What a row of the table of layers is."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.operators.operator_case import Since

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LayerCase:
    """A layer of ``paddle.nn`` that trains on the IPU as in dynamic mode on the CPU.

    Attributes:
        kind: its name in ``paddle.nn``; a Paddle without it has not the row.
        make: the layer itself, or one that calls it.
        inputs: what it is called with. Those in float32 have their gradients compared.
        variant: tells rows of one layer apart.
        frozen: it is in evaluation mode; what it does in training mode is drawn at random.
        oracle: makes the layer that dynamic mode runs, where Paddle has no CPU kernel for `kind`.
        since: the first Paddle whose static mode builds it, if not the oldest.
    """

    kind: str
    make: Callable[[], Any]
    inputs: tuple[Array, ...] = ()
    variant: str = ""
    frozen: bool = False
    oracle: Callable[[], Any] | None = None
    since: Since | None = None

    @property
    def name(self) -> str:
        """The row's name, in reports and as the name of a sublayer."""
        return f"{self.kind}_{self.variant}" if self.variant else self.kind


@dataclass(frozen=True, slots=True)
class RefusedLayer:
    """A layer of ``paddle.nn`` that the IPU refuses.

    Attributes:
        kind, make, inputs: as of :class:`LayerCase`.
        message: what the error says, as a regular expression.
    """

    kind: str
    make: Callable[[], Any]
    inputs: tuple[Array, ...]
    message: str


def numbers(*shape: int, of: str = "") -> Array:
    """Normally distributed float32, other ones for other `of`."""
    generator = np.random.default_rng(zlib.crc32(f"{shape} {of}".encode()))
    return generator.standard_normal(shape).astype("float32")


def positive(*shape: int, of: str = "") -> Array:
    """float32 between 0.1 and 0.9."""
    generator = np.random.default_rng(zlib.crc32(f"{shape} {of}".encode()))
    return generator.uniform(0.1, 0.9, shape).astype("float32")


def classes(count: int, *shape: int, first: int = 0) -> Array:
    """int64 from `first` up to `count`, exclusive."""
    generator = np.random.default_rng(zlib.crc32(f"{shape} {count}".encode()))
    return generator.integers(first, count, shape)


def signs(*shape: int) -> Array:
    """float32 that are 1 or -1."""
    return np.where(numbers(*shape, of="signs") > 0, 1, -1).astype("float32")
