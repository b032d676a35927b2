"""Range checks: the step keeps the extremes of integers that operators take, the host checks them.

XLA reads the nearest element for an index that does not exist, and divides integers by zero. The
extremes of what operators index with, and whether a divisor is zero, leave the step as one small
array, so that a wrong number is an error, not a result; from the batch with it on, the step changes
no weight. Where indices are fed as they are to a step that leaves nothing behind, the host checks
them before the run, and the step need not.

Where PopART says what a number out of range does, the step does that, and the run is told how many
there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import IndexRangeError, IntegerDivisionError, OperandValueError
from paddle_ipu.popart.operand_ranges import HIGHEST

NAME = "__index_ranges__"
"""Of the extremes, among a step's anchors."""

HostArray = np.ndarray[Any, Any]
Array = jax.Array | HostArray

_NONE = np.zeros((2, 2), np.int32)
_LIMITS = np.iinfo(np.int32)
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
        effect: what a number out of range does, in words, where it is told and not refused; then
            how many there are, and one of them, take the place of the extremes.
    """

    node: str
    op_type: str
    what: str
    low: int
    high: int
    ignored: int | None = None
    inside: Sequence[RangeCheck] | None = None
    nonzero: bool = False
    effect: str = ""

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
        extremes: the smallest and the largest number of each of these, or what a check has in
            their place, int32 [2].
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
        is_constant = isinstance(integers, np.ndarray)
        if is_constant and check.low <= smallest and largest <= check.high:
            return
        if check.effect:
            pair = _count(check, integers), _wrong_one(check, smallest, largest)
            self._add(check, _pair(*pair))
        elif is_constant:
            raise _error(
                check,
                f"the constant {check.what} {smallest if smallest < check.low else largest}",
                "Change the number in the program.",
            )
        else:
            self._add(check, _pair(smallest, largest))

    def _add(self, check: RangeCheck, pair: jax.Array) -> None:
        self.checks.append(check)
        self.extremes.append(jax.lax.stop_gradient(pair))

    def add_block(self, op_type: str, name: str, wrong: jax.Array) -> None:
        """Adds what ``BlockRangeChecks`` found in an operator's subgraphs."""
        check = RangeCheck(name, op_type, "index", 0, HIGHEST, inside=self.inside)
        if not all(each.effect for each in self.inside):
            self._add(check, wrong[0])
        if any(each.effect for each in self.inside):
            self._add(replace(check, effect="That of the operator inside."), wrong[1])

    def stacked(self) -> jax.Array:
        """The extremes, [operators, 2]."""
        return jnp.stack(self.extremes)


class BlockRangeChecks:
    """The checks of a subgraph, which may run never or many times.

    However many checks a subgraph has, two pairs of numbers leave it, as both branches of a
    condition and every iteration of a loop must give the same: that of the first operator with a
    wrong number that is refused, below zero, and the number; and the same of those that are told.
    A pair is two zeros where there is none.

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
        """The pairs, int32 [2, 2]."""
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
        pair = _pair(-len(self.inside), _wrong_one(check, smallest, largest))
        pair = jnp.where(is_wrong, pair, _NONE[0])
        self.merge(jnp.stack([_NONE[0], pair] if check.effect else [pair, _NONE[0]]))

    def add_block(self, op_type: str, name: str, wrong: jax.Array) -> None:
        """Adds what was found in a subgraph of an operator of this one."""
        self.merge(wrong)

    def merge(self, wrong: jax.Array) -> None:
        """Keeps each pair unless there is one already."""
        self._wrong = first_wrong(self._wrong, jax.lax.stop_gradient(wrong))


Checks = RangeChecks | BlockRangeChecks


def first_wrong(earlier: Array, later: Array) -> jax.Array:
    """Of what ``BlockRangeChecks`` gives twice, each first pair that has a wrong number."""
    return jnp.where(earlier[:, :1] < 0, earlier, later)


def _extremes(check: RangeCheck, integers: Array) -> tuple[Any, Any]:
    if check.nonzero:
        integers = (integers != 0).astype(np.int32)
    integers = _counted(check, integers)
    return integers.min(), integers.max()


def _pair(first: Array | int, second: Array) -> jax.Array:
    return jnp.stack([jnp.asarray(number, np.int32) for number in (first, second)])


def _counted(check: RangeCheck, integers: Array) -> Array:
    """The integers with a valid one in place of what is valid whatever the range."""
    if check.ignored is None:
        return integers
    module: Any = np if isinstance(integers, np.ndarray) else jnp
    counted: Array = module.where(integers == check.ignored, check.low, integers)
    return counted


def _count(check: RangeCheck, integers: Array) -> Array:
    """How many of the integers are out of range."""
    integers = _counted(check, integers)
    return ((integers < check.low) | (integers > check.high)).sum()


def _wrong_one(check: RangeCheck, smallest: Array, largest: Array) -> jax.Array:
    """Of two extremes the one that is out of range, if one is."""
    return jnp.where(smallest < check.low, smallest, largest)


def all_valid(checks: Sequence[RangeCheck], extremes: jax.Array) -> jax.Array:
    """Whether no number is out of range; `extremes` are [..., operators, 2]."""
    return ~jnp.any(_wrong(checks, extremes))


def _wrong(checks: Sequence[RangeCheck], extremes: Any) -> Any:
    lows = np.asarray([_LIMITS.min if each.effect else each.low for each in checks], np.int32)
    highs = np.asarray([_LIMITS.max if each.effect else each.high for each in checks], np.int32)
    return (extremes[..., 0] < lows) | (extremes[..., 1] > highs)


def check_feeds(checks: Sequence[FedCheck], feeds: Mapping[str, HostArray]) -> None:
    """Raises OperandValueError for the first operator that is fed a number out of range.

    Args:
        checks: of the operators, in order.
        feeds: by input, integers of one micro-batch.
    """
    for name, check in checks:
        smallest, largest = _extremes(check, feeds[name])
        if not check.effect and (smallest < check.low or check.high < largest):
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


class Told(NamedTuple):
    """Numbers out of range that a run went on with.

    Attributes:
        check: of the operator that took them.
        message: what is told of them.
    """

    check: RangeCheck
    message: str


def told_of_feeds(checks: Sequence[FedCheck], feeds: Mapping[str, HostArray]) -> Iterator[Told]:
    """What is told of integers that were fed; the arguments are those of :func:`check_feeds`."""
    for name, check in checks:
        if check.effect and (count := int(_count(check, feeds[name]))):
            smallest, largest = _extremes(check, feeds[name])
            yield _told(check, count, int(smallest if smallest < check.low else largest))


def told_of_extremes(checks: Sequence[RangeCheck], extremes: HostArray) -> Iterator[Told]:
    """What is told of a run; the arguments are those of :func:`check_extremes`."""
    rows = extremes.reshape(-1, len(checks), 2)
    for check, pairs in zip(checks, rows.swapaxes(0, 1), strict=True):
        found = pairs[pairs[:, 0] != 0]
        if not check.effect or not len(found):
            continue
        first, got = (int(number) for number in found[0])
        if check.inside is None:
            yield _told(check, int(found[:, 0].sum()), got)
        else:
            yield _told(check.inside[-1 - first], 0, got)


def _told(check: RangeCheck, count: int, got: int) -> Told:
    """Words for `count` numbers out of range, or for 0 an unknown count, of which one is `got`."""
    node = f" ({check.node})" if check.node else ""
    others = f" and {count - 1} more" * (count > 1) if count else ", and perhaps more,"
    message = (
        f"operator {check.op_type}{node} got {check.what} {_or_beyond(got)}{others} out of range "
        f"in one run, expected {check.expected}. {check.effect} This is told once."
    )
    return Told(check, message)


def _refuse(check: RangeCheck, extremes: Sequence[int], where: str, kept: str) -> None:
    smallest, largest = int(extremes[0]), int(extremes[1])
    got = smallest if smallest < check.low else largest
    if check.inside is not None:
        check, got = check.inside[-1 - smallest], largest
    advice = _CHECK_DIVISOR if check.nonzero else _CHECK
    raise _error(check, f"{check.what} {_or_beyond(got)}{where}", kept + advice)


def _or_beyond(got: int) -> str:
    """An index in words: those of 64 bits are checked as the nearest of 32."""
    beyond = {_LIMITS.max: " or more", _LIMITS.min: " or less"}
    return f"{got}{beyond.get(got, '')}"


def _error(check: RangeCheck, got: str, advice: str) -> OperandValueError:
    node = f" ({check.node})" if check.node else ""
    kind = IntegerDivisionError if check.nonzero else IndexRangeError
    error = kind(f"operator {check.op_type}{node} got {got}, expected {check.expected}. {advice}")
    error.node = check.node
    return error
