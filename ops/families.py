"""Imports every family of translators, so that importing this module fills the table."""

from __future__ import annotations

from paddle_ipu.ops import (  # noqa: F401
    activation,
    comparison,
    convolution,
    creation,
    elementwise,
    indexing,
    linear,
    linear_algebra,
    loss,
    metric,
    norm,
    ordering,
    piecewise,
    reduce,
    shape,
    special,
    statistics,
    vector_norm,
)
