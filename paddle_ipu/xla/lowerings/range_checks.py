"""Range checks: the step keeps the extremes of integers that operators take, the host checks them.

XLA reads the nearest element for an index that does not exist, and divides integers by zero. The
extremes of what operators index with, and whether a divisor is zero, leave the step as one small
array, so that a wrong number is an error, not a result; from the batch with it on, the step changes
no weight. Where indices are fed as they are to a step that leaves nothing behind, the host checks
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

HostArray = np.ndarray[Any, Any]
Array = jax.Array | HostArray

_NONE = np.zeros(2, np.int32)
_CHECK = "Check the ids and labels that are fed."
_CHECK_DIVISOR = "Check what is fed, or put another number in place of zeros by paddle.where."


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """Which integers an operator takes.

    Attributes:
        node: the PopART node's name.
        op_type: its type.
        what: how a message names the integers, for instance ``index``.
        low: the smallest that is valid.
        high: the largest that is valid.
        ignored: one number that is valid whatever the range.
        inside: of an operator with subgraphs, the checks of the operators in them; then the
            extremes are what ``BlockRangeChecks`` found.
        nonzero: any number but zero; then 1 stands for each of them, the only one in range.
    """

    node: str
    op_type: str
    what: str
    low: int
    high: int
    ignored: int | None = None
    inside: Sequence[RangeCheck] | None = None
    nonzero: bool = False

    @property
    def expected(self) -> str:
        """The valid numbers, in words."""
        if self.nonzero:
            return "any number but 0"
        if self.low >= 0 and self.high < self.low:
            return f"no {self.what}, as there is nothing to choose from"
        return f"{self.low} or more" if self.high == HIGHEST else f"{self.low} to {self.high}"


FedCheck = tuple[str, RangeCheck]
"""An input of a step whose integers the host checks, and their range."""


@dataclass(slots=True)
class RangeChecks:
    """The checks of one step in the order of its operators, collected while JAX traces.

    Attributes:
        inputs: the step's inputs that the host can check.
        fed: checks of inputs that operators take as they are; those before the first check that
            the step has to keep extremes for, so that the first wrong number is reported.
        checks: those that the step keeps extremes for.
        extremes: the smallest and the largest number of each of these, int32 [2].
        inside: checks of the operators in subgraphs.
    """

    inputs: Mapping[str, Array] = field(default_factory=dict)
    fed: list[FedCheck] = field(default_factory=list)
    checks: list[RangeCheck] = field(default_factory=list)
    extremes: list[jax.Array] = field(default_factory=list)
    inside: list[RangeCheck] = field(default_factory=list)

    def add(self, check: RangeCheck, integers: Array) -> None:
        """Adds a check of integers of any shape; constants are checked at once.

        Raises:
            OperandValueError: a constant is out of range.
        """
        if integers.size == 0:
            return
        fed = next((name for name, array in self.inputs.items() if array is integers), None)
        if fed is not None and not self.checks:
            self.fed.append((fed, check))
            return
        smallest, largest = _extremes(check, integers)
        if isinstance(integers, np.ndarray):
            if smallest < check.low or check.high < largest:
                raise _error(
                    check,
                    f"the constant {check.what} {smallest if smallest < check.low else largest}",
                    "Change the number in the program.",
                )
            return
        self.checks.append(check)
        extremes = jnp.stack([smallest, largest]).astype(np.int32)
        self.extremes.append(jax.lax.stop_gradient(extremes))

    def add_block(self, op_type: str, name: str, wrong: jax.Array) -> None:
        """Adds what ``BlockRangeChecks`` found in an operator's subgraphs."""
        self.checks.append(RangeCheck(name, op_type, "index", 0, HIGHEST, inside=self.inside))
        self.extremes.append(jax.lax.stop_gradient(wrong))

    def stacked(self) -> jax.Array:
        """The extremes, [operators, 2]."""
        return jnp.stack(self.extremes)


class BlockRangeChecks:
    """The checks of a subgraph, which may run never or many times.

    However many checks a subgraph has, one pair of numbers leaves it, as both branches of a
    condition and every iteration of a loop must give the same: that of the first operator with a
    wrong number, below zero, and the number; or two zeros.

    Args:
        inside: the checks of all subgraphs of the step, to which new ones are added.
    """

    def __init__(self, inside: list[RangeCheck]) -> None:
        self.inside = inside
        self._first = len(inside)
        self._wrong: Array = _NONE

    @property
    def has_checks(self) -> bool:
        """Whether a check was added since this was made."""
        return len(self.inside) > self._first

    @property
    def wrong(self) -> jax.Array:
        """The pair, int32 [2]."""
        return jnp.asarray(self._wrong)

    def add(self, check: RangeCheck, integers: Array) -> None:
        """Adds a check; a wrong constant is an error only if its operator runs."""
        if integers.size == 0:
            return
        smallest, largest = _extremes(check, integers)
        is_wrong = (smallest < check.low) | (check.high < largest)
        if isinstance(integers, np.ndarray) and not is_wrong:
            return
        self.inside.append(check)
        got = jnp.where(smallest < check.low, smallest, largest).astype(np.int32)
        pair = jnp.stack([jnp.asarray(-len(self.inside), np.int32), got])
        self.merge(jnp.where(is_wrong, pair, _NONE))

    def add_block(self, op_type: str, name: str, wrong: jax.Array) -> None:
        """Adds what was found in a subgraph of an operator of this one."""
        self.merge(wrong)

    def merge(self, wrong: jax.Array) -> None:
        """Keeps the pair unless there is one already."""
        self._wrong = first_wrong(self._wrong, jax.lax.stop_gradient(wrong))


Checks = RangeChecks | BlockRangeChecks


def first_wrong(earlier: Array, later: Array) -> jax.Array:
    """Of two pairs as ``BlockRangeChecks`` gives them, the first that has a wrong number."""
    return jnp.where(earlier[0] < 0, earlier, later)


def _extremes(check: RangeCheck, integers: Array) -> tuple[Any, Any]:
    module: Any = np if isinstance(integers, np.ndarray) else jnp
    if check.nonzero:
        integers = (integers != 0).astype(np.int32)
    if check.ignored is not None:
        integers = module.where(integers == check.ignored, check.low, integers)
    return integers.min(), integers.max()


def all_valid(checks: Sequence[RangeCheck], extremes: jax.Array) -> jax.Array:
    """Whether no number is out of range; `extremes` are [..., operators, 2]."""
    return ~jnp.any(_wrong(checks, extremes))


def _wrong(checks: Sequence[RangeCheck], extremes: Any) -> Any:
    lows = np.asarray([check.low for check in checks], np.int32)
    highs = np.asarray([check.high for check in checks], np.int32)
    return (extremes[..., 0] < lows) | (extremes[..., 1] > highs)


def check_feeds(checks: Sequence[FedCheck], feeds: Mapping[str, HostArray]) -> None:
    """Raises OperandValueError for the first operator that is fed a number out of range.

    Args:
        checks: of the operators, in order.
        feeds: by input, integers of one micro-batch.
    """
    for name, check in checks:
        smallest, largest = _extremes(check, feeds[name])
        if smallest < check.low or check.high < largest:
            _refuse(check, (smallest, largest), "", "")


def check_extremes(
    checks: Sequence[RangeCheck],
    extremes: HostArray,
    place: Callable[[int], str],
    updates: int,
) -> None:
    """Raises OperandValueError for the first number of a run that is out of its operator's range.

    Args:
        checks: of the operators, in order.
        extremes: [..., operators, 2], with the run's loop dimensions in front.
        place: gives words for one of the micro-batches of these loops.
        updates: how often the run changes weights; 0 where it changes none.
    """
    rows = extremes.reshape(-1, len(checks), 2)
    wrong = _wrong(checks, rows)
    if not wrong.any():
        return
    row, at = (int(index) for index in np.argwhere(wrong)[0])
    done = row * updates // len(rows)
    since = f"after batch {done - 1} of" if done else "before"
    kept = f"Weights and optimizer state were left as {since} this run. " if updates else ""
    _refuse(checks[at], rows[row, at].tolist(), f" in {place(row)}" if len(rows) > 1 else "", kept)


def _refuse(check: RangeCheck, extremes: Sequence[int], where: str, kept: str) -> None:
    smallest, largest = int(extremes[0]), int(extremes[1])
    got = smallest if smallest < check.low else largest
    if check.inside is not None:
        check, got = check.inside[-1 - smallest], largest
    advice = _CHECK_DIVISOR if check.nonzero else _CHECK
    raise _error(check, f"{check.what} {_or_beyond(got)}{where}", kept + advice)


def _or_beyond(got: int) -> str:
    """An index in words: those of 64 bits are checked as the nearest of 32."""
    limits = np.iinfo(np.int32)
    beyond = {limits.max: " or more", limits.min: " or less"}
    return f"{got}{beyond.get(got, '')}"


def _error(check: RangeCheck, got: str, advice: str) -> OperandValueError:
    node = f" ({check.node})" if check.node else ""
    kind = IntegerDivisionError if check.nonzero else IndexRangeError
    error = kind(f"operator {check.op_type}{node} got {got}, expected {check.expected}. {advice}")
    error.node = check.node
    return error
