"""Imports every family of translators, so that importing this module fills the table."""

from __future__ import annotations

from paddle_ipu.ops import (  # noqa: F401
    activation,
    arrangement,
    batch_norm,
    comparison,
    control_flow,
    convolution,
    creation,
    custom,
    elementwise,
    graph_message,
    indexing,
    linear,
    linear_algebra,
    loss,
    metric,
    norm,
    ordering,
    piecewise,
    pooling,
    random,
    recurrent,
    reduce,
    scatter,
    shape,
    special,
    state,
    statistics,
    vector_norm,
)
