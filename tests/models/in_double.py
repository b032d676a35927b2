"""Gradients of a whole model in double precision, which decides where two float32 results differ.

Where an activation is all but zero, or two numbers of a pooling's window all but equal, either of
two roundings is right, and gradients differ by what one element carries. In double precision such
ties show: moving the images by parts in a million moves the gradients by much more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from tests.journeys.training.side_by_side import Built, read, write

if TYPE_CHECKING:
    from tests.models.side_by_side import Model

_MOVED = 2e-6
"""Of an image's numbers: several times what float32 makes of a forward pass."""

_TIMES = 16
"""Draws at most: one element that is all but zero moves in few of them."""


@contextmanager
def _default_of_float64() -> Iterator[None]:
    before = paddle.get_default_dtype()
    paddle.set_default_dtype("float64")
    try:
        yield
    finally:
        paddle.set_default_dtype(before)


def gradients_in_double(
    model: Model, state: Mapping[str, np.ndarray], names: list[str], got: np.ndarray
) -> tuple[np.ndarray, float]:
    """What one step from `state` puts into the velocities `names`, by Paddle's CPU kernels.

    Args:
        got: all gradients in one row, as another device has them.

    Returns:
        The exact ones, and how far they move, of their norm, when the floating feeds move by parts
        in a million: as far as those that the other device has, or the furthest of all draws.
    """
    wide = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array
        for name, array in model.feed.items()
    }
    with _default_of_float64():
        built = replace(model, feed=wide).built(training=True)
    exact = _step(built, state, names, wide)
    norm, furthest = np.linalg.norm(exact), 0.0
    wanted = np.linalg.norm(got - exact) / norm
    for time in range(_TIMES):
        if furthest >= wanted:
            break
        draw = np.random.RandomState(time).standard_normal
        moved = {
            name: array * (1 + _MOVED * draw(array.shape)) if array.dtype == np.float64 else array
            for name, array in wide.items()
        }
        far = np.linalg.norm(_step(built, state, names, moved) - exact) / norm
        furthest = max(furthest, float(far))
    return exact, furthest


def _step(
    built: Built, state: Mapping[str, np.ndarray], names: list[str], feed: Mapping[str, np.ndarray]
) -> Any:
    scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(scope):
        executor.run(built.startup)
        for name, array in state.items():
            write(scope, name, array.astype(read(scope, name).dtype))
        executor.run(built.main, feed=dict(feed), fetch_list=built.fetches)
    return np.concatenate([read(scope, name).reshape(-1) for name in names])
