"""Numbers that an operator may not take: the step keeps their extremes, the host judges them.

XLA reads the nearest element for an index that does not exist, and divides integers by zero. The
extremes of what operators index with, and whether a divisor is zero, leave the step as one small
array, so that a wrong number is an error, not a result; from the batch with it on, the step changes
no weight. Where indices are fed as they are to a step that leaves nothing behind, the host judges
them before the run, and the step need not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import IndexRangeError, IntegerDivisionError, OperandValueError
from paddle_ipu.popart.operand_ranges import HIGHEST

NAME = "__index_ranges__"
"""Of the extremes, among a step's anchors."""


_NONE = np.zeros(2, np.int32)
_FEW = 64
_CHECK = "Check the ids and labels that are fed."
_CHECK_DIVISOR = "Check what is fed, or put another number in place of zeros by paddle.where."


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
        inside: of an operator with subgraphs, the ranges of the operators in them; then the
            extremes are what ``BlockRanges`` found.
        nonzero: any number but zero; then 1 stands for each of them, the only one in range.
    """

    node: str
    op_type: str
    what: str
    low: int
    high: int
    ignored: int | None = None
    inside: Sequence[IndexRange] | None = None
    nonzero: bool = False

    @property
    def expected(self) -> str:
        """What it takes, in words."""
        if self.nonzero:
            return "any number but 0"
        return f"{self.low} or more" if self.high == HIGHEST else f"{self.low} to {self.high}"


FedRange = tuple[str, IndexRange]
"""An input of a step that is indices, and their range."""


@dataclass(slots=True)
class IndexRanges:
    """The ranges of one step in the order of its operators, collected while JAX traces.

    Attributes:
        inputs: the step's inputs that the host can judge.
        fed: inputs that are indices as they are, with their ranges; those before the first range
            that the step has to keep extremes for, so that the first wrong index is told.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    fed: list[FedRange] = field(default_factory=list)
    ranges: list[IndexRange] = field(default_factory=list)
    extremes: list[jax.Array] = field(default_factory=list)
    inside: list[IndexRange] = field(default_factory=list)

    def add(self, taken: IndexRange, indices: Any) -> None:
        """Watches `indices`; constant ones are judged at once.

        Raises:
            OperandValueError: a constant is out of range.
        """
        if indices.size == 0:
            return
        own = next((name for name, array in self.inputs.items() if array is indices), None)
        if own is not None and not self.ranges:
            self.fed.append((own, taken))
            return
        smallest, largest = _extremes(taken, indices)
        if isinstance(indices, np.ndarray):
            if smallest < taken.low or taken.high < largest:
                raise _error(
                    taken,
                    f"the constant {taken.what} {smallest if smallest < taken.low else largest}",
                    "Change the number in the program.",
                )
            return
        self.ranges.append(taken)
        extremes = jnp.stack([smallest, largest]).astype(np.int32)
        self.extremes.append(jax.lax.stop_gradient(extremes))

    def add_block(self, op_type: str, name: str, found: jax.Array) -> None:
        """Watches what ``BlockRanges`` found in an operator's subgraphs."""
        self.ranges.append(IndexRange(name, op_type, "index", 0, HIGHEST, inside=self.inside))
        self.extremes.append(jax.lax.stop_gradient(found))

    def stacked(self) -> jax.Array:
        """The extremes, [operators, 2]."""
        return jnp.stack(self.extremes)


class BlockRanges:
    """Watches the operators of a subgraph, which may run never or many times.

    Whatever is in a subgraph, it leaves it as one pair of numbers, as both branches of a condition
    and every turn of a loop must: that of the first operator with a wrong index, below zero, and
    the index; or two zeros.
    """

    def __init__(self, inside: list[IndexRange]) -> None:
        self.inside = inside
        self._first = len(inside)
        self._found: Any = _NONE

    @property
    def watches(self) -> bool:
        """Whether an operator was watched since this was made."""
        return len(self.inside) > self._first

    @property
    def found(self) -> jax.Array:
        """The pair, int32 [2]."""
        return jnp.asarray(self._found)

    def add(self, taken: IndexRange, indices: Any) -> None:
        """Watches `indices`; a wrong constant is an error only if its operator runs."""
        if indices.size == 0:
            return
        smallest, largest = _extremes(taken, indices)
        is_wrong = (smallest < taken.low) | (taken.high < largest)
        if isinstance(indices, np.ndarray) and not is_wrong:
            return
        self.inside.append(taken)
        got = jnp.where(smallest < taken.low, smallest, largest).astype(np.int32)
        pair = jnp.stack([jnp.asarray(-len(self.inside), np.int32), got])
        self.merge(jnp.where(is_wrong, pair, _NONE))

    def add_block(self, op_type: str, name: str, found: jax.Array) -> None:
        """Watches what was found in a subgraph of an operator of this one."""
        self.merge(found)

    def merge(self, found: jax.Array) -> None:
        """Keeps `found` unless something was found before."""
        self._found = first_found(self._found, jax.lax.stop_gradient(found))


Watch = IndexRanges | BlockRanges


def first_found(earlier: Any, later: Any) -> jax.Array:
    """Of two pairs that ``BlockRanges`` found, the first that tells of a wrong index."""
    return jnp.where(earlier[0] < 0, earlier, later)


def _extremes(taken: IndexRange, indices: Any) -> tuple[Any, Any]:
    module: Any = np if isinstance(indices, np.ndarray) else jnp
    if taken.nonzero:
        indices = (indices != 0).astype(np.int32)
    if taken.ignored is not None:
        indices = module.where(indices == taken.ignored, taken.low, indices)
    return indices.min(), indices.max()


def all_exist(ranges: Sequence[IndexRange], extremes: jax.Array) -> jax.Array:
    """Whether no index is out of range; `extremes` are [..., operators, 2]."""
    return ~jnp.any(_wrong(ranges, extremes))


def _wrong(ranges: Sequence[IndexRange], extremes: Any) -> Any:
    lows = np.asarray([taken.low for taken in ranges], np.int32)
    highs = np.asarray([taken.high for taken in ranges], np.int32)
    return (extremes[..., 0] < lows) | (extremes[..., 1] > highs)


def check_fed_bounds(ranges: Sequence[FedRange], feeds: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Raises OperandValueError for the first operator that is fed what it does not take.

    Args:
        ranges: of the operators, in order.
        feeds: by input, integers of one micro-batch.
    """
    for name, taken in ranges:
        indices = feeds[name]
        if indices.size <= _FEW:
            numbers = indices.ravel().tolist()
            smallest, largest = min(numbers), max(numbers)
        else:
            smallest, largest = indices.min(), indices.max()
        if taken.low <= smallest and largest <= taken.high:
            continue
        extremes = np.stack(_extremes(taken, indices))
        if _wrong([taken], extremes[None]).any():
            _refuse(taken, extremes, "", "")


def check_bounds(
    ranges: Sequence[IndexRange],
    extremes: np.ndarray[Any, Any],
    place: Callable[[int], str],
    updates: int,
) -> None:
    """Raises OperandValueError for the first number in a run that its operator does not take.

    Args:
        ranges: of the operators, in order.
        extremes: [..., operators, 2], with the run's loop dimensions in front.
        place: gives words for one of the turns of these loops.
        updates: how often the run changes weights; 0 where it changes none.
    """
    turns = extremes.reshape(-1, len(ranges), 2)
    if turns.size <= _FEW and all(
        taken.low <= smallest and largest <= taken.high
        for turn in turns.tolist()
        for taken, (smallest, largest) in zip(ranges, turn, strict=True)
    ):
        # Python looks through a few numbers sooner than NumPy.
        return
    wrong = _wrong(ranges, turns)
    if not wrong.any():
        return
    turn, at = (int(found) for found in np.argwhere(wrong)[0])
    done = turn * updates // len(turns)
    since = f"after batch {done - 1} of" if done else "before"
    kept = f"Weights and optimizer state were left as {since} this run. " if updates else ""
    _refuse(ranges[at], turns[turn, at], f" in {place(turn)}" if len(turns) > 1 else "", kept)


def _refuse(taken: IndexRange, extremes: np.ndarray[Any, Any], where: str, kept: str) -> None:
    smallest, largest = int(extremes[0]), int(extremes[1])
    got = smallest if smallest < taken.low else largest
    if taken.inside is not None:
        taken, got = taken.inside[-1 - smallest], largest
    advice = _CHECK_DIVISOR if taken.nonzero else _CHECK
    raise _error(taken, f"{taken.what} {_or_beyond(got)}{where}", kept + advice)


def _or_beyond(got: int) -> str:
    """An index in words: those of 64 bits are judged as the nearest of 32."""
    limits = np.iinfo(np.int32)
    beyond = {limits.max: " or more", limits.min: " or less"}
    return f"{got}{beyond.get(got, '')}"


def _error(taken: IndexRange, got: str, advice: str) -> OperandValueError:
    node = f" ({taken.node})" if taken.node else ""
    kind = IntegerDivisionError if taken.nonzero else IndexRangeError
    error = kind(f"operator {taken.op_type}{node} got {got}, expected {taken.expected}. {advice}")
    error.node = taken.node
    return error
