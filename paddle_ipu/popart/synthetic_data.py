"""Made-up inputs of a step, for ``SessionOptions.syntheticDataMode``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from paddle_ipu.popart.enums import SyntheticDataMode

Array = np.ndarray[Any, Any]


def synthetic_inputs(
    mode: SyntheticDataMode,
    kinds: Mapping[str, tuple[tuple[int, ...], str]],
    loops: Callable[[str], tuple[int, ...]],
) -> dict[str, Array]:
    """Inputs of a whole step, [loops, a micro-batch's shape]: the same in each process.

    Floats are 0, standard normal or uniform in [0, 1). Other types are 0 in each mode, which every
    table that they may be an index of has.

    Args:
        mode: any but Off.
        kinds: shape and dtype of a micro-batch, by tensor.
        loops: how many micro-batches of a tensor a step has, in one or more dimensions.
    """
    rng = np.random.default_rng(0)
    draws: dict[SyntheticDataMode, Callable[..., Any]] = {
        SyntheticDataMode.RandomNormal: rng.standard_normal,
        SyntheticDataMode.RandomUniform: rng.random,
    }
    draw = draws.get(mode, np.zeros)
    arrays = {}
    for name, (own, dtype) in kinds.items():
        shape = (*loops(name), *own)
        # NumPy calls bfloat16 a void type.
        floats = np.dtype(dtype).kind in "fV"
        arrays[name] = np.asarray(draw(shape) if floats else np.zeros(shape)).astype(dtype)
    return arrays
