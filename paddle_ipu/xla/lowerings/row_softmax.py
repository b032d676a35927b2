"""Softmax of rows as one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from paddle_ipu.xla.kernels.softmax import SoftmaxSpec, softmax_of
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext


def softmax(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Softmax of the rows that `spec` sees in the only input, whose shape the result has."""
    spec = attributes["spec"]
    assert isinstance(spec, SoftmaxSpec)
    return softmax_of(spec, jnp.asarray(inputs[0]))
