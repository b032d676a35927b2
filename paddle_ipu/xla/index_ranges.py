"""Indices that a run may take out of range: the step keeps their extremes, the host judges them.

XLA reads the nearest element for an index that does not exist. The extremes of what operators
index with leave the step as one small array, so that a wrong index is an error, not a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import IndexRangeError

NAME = "__index_ranges__"
"""Of the extremes, among a step's anchors."""


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Which indices an operator takes.

    Attributes:
        node: the PopART node's name.
        op_type: its type.
        what: how a message names the indices, for instance ``index``.
        low: the smallest that exists.
        high: the largest that exists.
        ignored: one number that stands for none, whatever the range.
    """

    node: str
    op_type: str
    what: str
    low: int
    high: int
    ignored: int | None = None


@dataclass(slots=True)
class IndexRanges:
    """The ranges of one step in the order of its operators, collected while JAX traces."""

    ranges: list[IndexRange] = field(default_factory=list)
    extremes: list[jax.Array] = field(default_factory=list)

    def add(self, taken: IndexRange, indices: Any) -> None:
        """Watches `indices`; constant ones are judged at once.

        Raises:
            IndexRangeError: a constant index is out of range.
        """
        if indices.size == 0:
            return
        is_constant = isinstance(indices, np.ndarray)
        module: Any = np if is_constant else jnp
        if taken.ignored is not None:
            indices = module.where(indices == taken.ignored, taken.low, indices)
        extremes = module.stack([indices.min(), indices.max()]).astype(np.int32)
        if is_constant:
            _judge(taken, extremes, "")
            return
        self.ranges.append(taken)
        self.extremes.append(jax.lax.stop_gradient(extremes))

    def stacked(self) -> jax.Array:
        """The extremes, [operators, 2]."""
        return jnp.stack(self.extremes)


def judge(
    ranges: Sequence[IndexRange], extremes: np.ndarray[Any, Any], place: Callable[[int], str]
) -> None:
    """Raises IndexRangeError for the first index out of range in a run.

    Args:
        ranges: of the operators, in order.
        extremes: [..., operators, 2], with the run's loop dimensions in front.
        place: gives words for one of the turns of these loops.
    """
    lows = np.asarray([taken.low for taken in ranges])
    highs = np.asarray([taken.high for taken in ranges])
    turns = extremes.reshape(-1, len(ranges), 2)
    wrong = (turns[..., 0] < lows) | (turns[..., 1] > highs)
    if not wrong.any():
        return
    turn, at = (int(found) for found in np.argwhere(wrong)[0])
    _judge(ranges[at], turns[turn, at], f" in {place(turn)}" if len(turns) > 1 else "")


def _judge(taken: IndexRange, extremes: np.ndarray[Any, Any], where: str) -> None:
    smallest, largest = int(extremes[0]), int(extremes[1])
    if taken.low <= smallest and largest <= taken.high:
        return
    got = smallest if smallest < taken.low else largest
    node = f" ({taken.node})" if taken.node else ""
    error = IndexRangeError(
        f"operator {taken.op_type}{node} got {taken.what} {got}{where}, expected "
        f"{taken.low} to {taken.high}. The results of this run are not to be used; in training it "
        "has updated the weights. Check the ids and labels that are fed."
    )
    error.node = taken.node
    raise error
