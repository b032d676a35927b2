"""The variable of the Scope in which the scale of automatic loss scaling outlives its program.

It holds two float32 numbers: the loss scale, and the ``loss_scaling`` it started from. A program
compiled with the same ``loss_scaling`` goes on from the scale; with another one it starts there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.weights import owner


def sync_to_host(scope: Any, optimizer: PaddleOptimizer | None) -> None:
    """Has the Scope hold the scale that live programs came to, before another is compiled."""
    if optimizer is not None and optimizer.loss_scale_variable:
        owner.sync_to_host(scope, [optimizer.loss_scale_variable])


@contextmanager
def started(scope: Any, optimizer: PaddleOptimizer | None) -> Iterator[None]:
    """Writes the scale that a program starts from to the Scope; an error undoes it."""
    name = "" if optimizer is None else optimizer.loss_scale_variable
    if optimizer is None or not name:
        yield
        return
    tensor = scopes.tensor(scope, name)
    before = None if tensor is None else np.array(scopes.view(tensor))
    start = np.full(2, optimizer.loss_scaling, np.float32)
    if before is None or before[1] != start[1]:
        scopes.write(scope.var(name).get_tensor() if tensor is None else tensor, start)
    try:
        yield
    except BaseException:
        if before is None:
            scope.erase([name])
        else:
            scopes.write(tensor, before)
        raise


def scale_in(array: Any, optimizer: PaddleOptimizer) -> float:
    """The loss scale that a program starts from, for the variable's array, None without one."""
    if array is None or array[1] != np.float32(optimizer.loss_scaling):
        return float(optimizer.loss_scaling)
    return float(array[0])
