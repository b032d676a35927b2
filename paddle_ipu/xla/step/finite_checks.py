"""What a step that checks floats says of the first operator that gave NaN or infinity."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle_ipu.errors import NumericalError
from paddle_ipu.xla.step.traced_step import Step


def raise_unless_finite(finite: np.ndarray[Any, Any], step: Step) -> None:
    """Names the first operator of the first batch that is not finite.

    Args:
        finite: a flag for each micro-batch of each replica and each operator that is checked; the
            last column is that of gradients and updated weights.
        step: the traced step.

    Raises:
        NumericalError: a flag is false.
    """
    if finite.all():
        return
    program = step.program
    micro = program.accumulation_factor * program.replicas
    operators = len(step.checked)
    batches = finite.reshape(-1, micro, finite.shape[-1])
    batch = int(np.argmin(batches.all(axis=(1, 2))))
    flags = batches[batch, :, :operators]
    node = None
    if flags.all():
        # The last column, the same for all micro-batches, is that of the update after them.
        where, turn = "a gradient or an updated weight", batch * micro + micro - 1
    else:
        row = int(np.argmin(flags.all(axis=1)))
        node, turn = step.checked[int(np.argmin(flags[row]))], batch * micro + row
        where = f"operator {node.op_type} ({node.name})"
    error = NumericalError(
        f"floating-point checks are on and {where} gave NaN or infinity in {program.turn(turn)}. "
        "Weights and optimizer state were left as before this run. Check the feeds and the "
        "learning rate; paddle_ipu.verify compares every operator with Paddle's CPU kernels."
    )
    error.node = None if node is None else node.name
    raise error
