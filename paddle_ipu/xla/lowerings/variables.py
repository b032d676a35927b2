"""Lowering of writes to variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


@lowering("ai.graphcore", "CopyVarUpdate")
def copy_var_update(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The updater, which the step keeps as the variable's value (``LoweredGraph.writes``)."""
    return lax.stop_gradient(inputs[1])
