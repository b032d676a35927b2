"""Imports every family of translators, so that importing this module fills the table."""

from __future__ import annotations

from paddle_ipu.ops import (  # noqa: F401
    activation,
    comparison,
    elementwise,
    indexing,
    linear,
    loss,
    norm,
    reduce,
    shape,
)
