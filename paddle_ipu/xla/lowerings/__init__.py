"""The lowerings of PopART's operators, by family; importing this package registers them all."""

from __future__ import annotations

from paddle_ipu.xla.lowerings import (
    activation,
    comparison,
    convolution,
    elementwise,
    indexing,
    linear,
    linear_algebra,
    loss,
    normalization,
    ordering,
    random,
    reduction,
    shape,
    special,
    statistics,
)

__all__ = [
    "activation",
    "comparison",
    "convolution",
    "elementwise",
    "indexing",
    "linear",
    "linear_algebra",
    "loss",
    "normalization",
    "ordering",
    "random",
    "reduction",
    "shape",
    "special",
    "statistics",
]
