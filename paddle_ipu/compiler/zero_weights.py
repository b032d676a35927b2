"""Weights of zeros, for programs that are predicted: their numbers are never read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import device_dtype
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer

Array = np.ndarray[Any, Any]


def zeros(
    weights: Mapping[str, ir.Value], optimizer: PaddleOptimizer | None
) -> Callable[[str], Array]:
    """Zeros for every weight, views of one block that nobody writes to.

    They take the memory of the largest at most, and where the system hands out zeros when they are
    read, none.
    """
    kinds = {name: np.dtype(device_dtype(dialect.dtype_name(v))) for name, v in weights.items()}
    sizes = {
        name: math.prod(dialect.dims_of(value)) * kinds[name].itemsize
        for name, value in weights.items()
    }
    block = np.zeros(max(sizes.values(), default=0), np.uint8)
    block.flags.writeable = False
    return lambda name: (
        block[: sizes[name]].view(kinds[name]).reshape(dialect.dims_of(weights[name]))
    )
