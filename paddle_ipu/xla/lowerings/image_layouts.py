"""Which arrays [N, C, ...] of a step are there in channels-last layout, too.

Convolutions, batch norms and pooling compute in channels-last layout. XLA's CPU backend moves no
transposes past what stands between them, and their gradients stand there as well. So elementwise
operators compute in the layout in which their operands are there, and nothing is transposed unless
another operator reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.precision.integers import Array

Operand = jax.Array | np.ndarray[Any, Any] | None

ELEMENTWISE = frozenset({
    "Add", "Cast", "Clip", "Div", "Elu", "HardSigmoid", "LeakyRelu", "Max", "Min", "Mul", "Relu",
    "Sigmoid", "Sub", "Sum", "Swish", "Tanh",
})  # fmt: skip
"""Operators that do the same in each layout."""


def last(x: jax.Array) -> jax.Array:
    """[N, C, ...] as [N, ..., C]."""
    return x.transpose(0, *range(2, x.ndim), 1)


def first(x: jax.Array) -> jax.Array:
    """[N, ..., C] as [N, C, ...]."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


@dataclass(frozen=True, slots=True)
class ImageLayouts:
    """The arrays of a graph that are there in both layouts."""

    # By the id of the first array of a pair, which is kept so that no other gets its id.
    _pairs: dict[int, tuple[jax.Array, jax.Array]] = field(default_factory=dict)

    def last(self, x: jax.Array) -> jax.Array:
        """x [N, C, ...] as [N, ..., C]."""
        pair = self._pairs.get(id(x))
        return last(x) if pair is None else pair[1]

    def first(self, x: jax.Array) -> jax.Array:
        """x [N, ..., C] as [N, C, ...], whose readers may take x itself."""
        turned = first(x)
        self._pairs[id(turned)] = turned, x
        return turned

    def changed(self, x: Array, change: Callable[[Array], Array]) -> Array:
        """The result of an elementwise `change` of x, in each layout in which x is there."""
        pair = self._pairs.get(id(x))
        if pair is None:
            return change(x)
        turned = change(pair[1])
        return x if turned is pair[1] else self.first(jnp.asarray(turned))

    def operands(self, operands: Sequence[Operand]) -> Sequence[Operand] | None:
        """An elementwise operator's operands in channels-last layout; None where they are not.

        Those as large as the result are there. Smaller ones may be turned, and broadcast.
        """
        arrays = [array for array in operands if array is not None and array.ndim > 0]
        ranks = {array.ndim for array in arrays}
        if len(ranks) != 1 or min(ranks) < 3:
            return None
        largest = max(array.size for array in arrays)
        if any(array.size == largest and id(array) not in self._pairs for array in arrays):
            return None
        return [
            array if array is None or array.ndim == 0 else self.last(jnp.asarray(array))
            for array in operands
        ]
