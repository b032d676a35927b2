"""Attention as one function: scores, softmax and the sum of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddle_ipu.xla.kernels.attention import AttentionSpec, attended
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext


def attention(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Q, K, V and a mask or None, each as `spec` finds its rows; the result has `shape`."""
    spec = attributes["spec"]
    assert isinstance(spec, AttentionSpec)
    query, key, value, mask = inputs
    return attended(spec, query, key, value, mask, attributes["shape"])
