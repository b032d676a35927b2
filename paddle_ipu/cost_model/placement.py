"""Where a program can be cut into pipeline stages of equal time.

A cut is good where few bytes are alive: between two layers. Stages are cut so that the slowest IPU
is as fast as it can be. A weight lives on one IPU; where the first and the last operators share
one, as an embedding and the head over its words do, the last stage goes back to the first IPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from paddle_ipu.cost_model.liveness import Roots
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.program import Program

_WINDOW = 8
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Cuts:
    """Stages of a program: operator positions where each begins, and the IPU of each."""

    starts: tuple[int, ...]
    ipus: tuple[int, ...]


def place(program: Program, cuts: Cuts) -> Program:
    """The program with its operators on the IPUs and stages of `cuts`."""
    operators = []
    for number, start in enumerate(cuts.starts):
        end = cuts.starts[number + 1] if number + 1 < len(cuts.starts) else len(program.operators)
        for operator in program.operators[start:end]:
            operators.append(replace(operator, ipu=cuts.ipus[number], stage=number))
    return replace(program, operators=tuple(operators)).with_settings(
        pipelined=len(cuts.starts) > 1
    )


class Cutter:
    """Cuts a program for numbers of IPUs.

    Args:
        pricing: of its operators.
        recompute: backward does forward again.
    """

    def __init__(self, program: Program, pricing: Pricing, recompute: bool) -> None:
        self._program = program
        self._sums = [0.0, *accumulate(operator_cycles(program, pricing, recompute))]
        self._shared = _shared(program)
        self._places: dict[float, list[int]] = {}

    def balanced(
        self, ipus: int, first: float = 1.0, crossing: float = math.inf, growth: float = 1.0
    ) -> Cuts | None:
        """The cuts that make the slowest IPU fastest; None where there are none.

        Args:
            first: the first IPU's time over the others': below 1 leaves it memory for embeddings,
                which take no time.
            crossing: a cut crosses at most so many times the bytes of the one that fewest cross.
            growth: the first stage's time over the last one's, evenly more from stage to stage:
                below 1 leaves the stages memory that keep most micro-batches for backward.
        """
        count = len(self._program.operators)
        if ipus == 1:
            return Cuts((0,), (0,))
        if crossing not in self._places:
            self._places[crossing] = _places(self._program, crossing)
        places = self._places[crossing]
        if self._shared is None:
            return _straight(self._sums, places, ipus, first, growth)
        begin, end = self._shared
        if not any(begin < place <= end for place in places) or ipus < 2:
            return None
        between = [place for place in places if begin < place <= end]
        return _folded(self._sums, between, ipus, count, first, growth)


def operator_cycles(program: Program, pricing: Pricing, recompute: bool) -> list[float]:
    """What each operator takes a micro-batch; with `recompute` backward does forward again."""
    costs = [pricing.cost_of(operator) for operator in program.operators]
    if not program.settings.training:
        return [cost.forward.cycles for cost in costs]
    forwards = 2 if recompute else 1
    return [forwards * cost.forward.cycles + cost.backward.cycles for cost in costs]


def crossing_bytes(program: Program, group_of: Sequence[int], count: int) -> list[int]:
    """Bytes of activations that are made before each group and read in it or behind it.

    Args:
        group_of: the group of each operator.
        count: how many groups there are.
    """
    roots = Roots(program.operators)
    made: dict[str, tuple[int, int]] = {}
    last: dict[str, int] = {}
    for operator, group in zip(program.operators, group_of, strict=True):
        for tensor in operator.outputs:
            if tensor.role == "activation":
                made[tensor.name] = (group, tensor.bytes)
        for tensor in operator.read:
            for root in roots.of(tensor):
                last[root.name] = max(group, last.get(root.name, group))
    change = [0] * (count + 1)
    for name, (group, size) in made.items():
        change[group + 1] += size
        change[max(last.get(name, group), group) + 1] -= size
    return list(accumulate(change))[:count]


def _places(program: Program, most: float) -> list[int]:
    """Positions in front of which a cut is cheap: fewest bytes alive of those around.

    Args:
        most: how many times the bytes of the cheapest inner half there may be.
    """
    count = len(program.operators)
    crossing = crossing_bytes(program, range(count), count)
    indices = []
    for index in range(1, count):
        around = crossing[max(1, index - _WINDOW) : index + _WINDOW + 1]
        if crossing[index] <= min(around):
            indices.append(index)
    if math.isinf(most):
        return indices
    inner = indices[len(indices) // 4 : -len(indices) // 4] or indices
    limit = most * min((crossing[index] for index in inner), default=0)
    return [index for index in indices if crossing[index] <= limit]


def _shared(program: Program) -> tuple[int, int] | None:
    """First and last reader of the weights whose readers are far apart, None without any."""
    readers: dict[str, list[int]] = {}
    for index, operator in enumerate(program.operators):
        for tensor in operator.read:
            if tensor.role == "weight":
                readers.setdefault(tensor.name, []).append(index)
    apart = [
        (positions[0], positions[-1])
        for positions in readers.values()
        if positions[-1] - positions[0] > max(_WINDOW, len(program.operators) // 4)
    ]
    if not apart:
        return None
    return max(first for first, _ in apart), min(last for _, last in apart)


def _fill(
    sums: Sequence[float], places: Sequence[int], start: int, limits: Sequence[float], end: int
) -> list[int] | None:
    """Starts of at most as many parts of [start, end) as there are limits of what each costs."""
    starts = [start]
    previous = start
    for place in [*(p for p in places if start < p < end), end]:
        if sums[place] - sums[starts[-1]] > limits[len(starts) - 1]:
            if previous == starts[-1] or len(starts) == len(limits):
                return None
            starts.append(previous)
            if sums[place] - sums[previous] > limits[len(starts) - 1]:
                return None
        previous = place
    return starts


def _growing(limit: float, parts: int, growth: float) -> list[float]:
    """Limits of parts: from `growth` times the last one's to that."""
    return [
        limit * (1 - (1 - growth) * (parts - 1 - at) / max(1, parts - 1)) for at in range(parts)
    ]


def _least(low: float, high: float, fill: Callable[[float], list[int] | None]) -> list[int]:
    """What `fill` gives for the least limit of the slowest part; nothing where it gives none."""
    best: list[int] = []
    for _ in range(_HALVINGS):
        limit = (low + high) / 2
        starts = fill(limit)
        if starts is None:
            low = limit
        else:
            best, high = starts, limit
    return best


def _split(
    starts: Sequence[int], sums: Sequence[float], places: Sequence[int], parts: int, end: int
) -> list[int]:
    """The starts of so many parts, of fewer that are as fast: the slowest is halved each time.

    Args:
        starts: of at most so many parts, of which the last ends at `end`.

    Returns:
        Fewer where there are no places left, none where there were none.
    """
    found = list(starts)
    while found and len(found) < parts:
        pairs = zip(found, [*found[1:], end], strict=True)
        for begin, stop in sorted(pairs, key=lambda pair: sums[pair[0]] - sums[pair[1]]):
            inner = [place for place in places if begin < place < stop]
            if inner:
                middle = (sums[begin] + sums[stop]) / 2
                distances = [(abs(sums[place] - middle), place) for place in inner]
                found = sorted([*found, min(distances)[1]])
                break
        else:
            break
    return found


def _straight(
    sums: Sequence[float], places: Sequence[int], ipus: int, first: float, growth: float
) -> Cuts | None:
    end = len(sums) - 1

    def fill(limit: float) -> list[int] | None:
        if first == 1.0 or not places:
            return _fill(sums, places, 0, _growing(limit, ipus, growth), end)
        begin = max((p for p in places if sums[p] <= limit * first), default=places[0])
        rest = _fill(sums, places, begin, _growing(limit, ipus - 1, growth), end)
        return None if rest is None else [0, *rest]

    best = _split(_least(sums[-1] / ipus, sums[-1], fill), sums, places, ipus, end)
    return None if len(best) < ipus else Cuts(tuple(best), tuple(range(len(best))))


def _folded(
    sums: Sequence[float],
    places: Sequence[int],
    ipus: int,
    count: int,
    first: float,
    growth: float,
) -> Cuts | None:
    """The last stage on the first IPU, the middle on the others."""
    if len(places) < 2:
        return None
    tail = places[-1]
    head = sums[count] - sums[tail]

    def fill(limit: float) -> list[int] | None:
        fitting = [p for p in places[:-1] if sums[p] + head <= limit * first]
        begin = fitting[-1] if fitting else places[0]
        return _fill(sums, places, begin, _growing(limit, ipus - 1, growth), tail)

    best = _split(_least(sums[-1] / ipus, sums[-1], fill), sums, places, ipus - 1, tail)
    if len(best) < ipus - 1:
        return None
    return Cuts((0, *best, tail), (0, *range(1, ipus), 0))
