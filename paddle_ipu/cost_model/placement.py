"""Where a program can be cut into pipeline stages of equal time.

A cut is good where few bytes are alive: between two layers. Stages are cut so that the slowest IPU
is as fast as it can be. A weight lives on one IPU; where the first and the last operators share
one, as an embedding and the head over its words do, the last stage goes back to the first IPU.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def balanced(
    program: Program, ipus: int, pricing: Pricing, recompute: bool, first: float = 1.0
) -> Cuts | None:
    """The cuts for so many IPUs that make the slowest fastest; None where there are none.

    Args:
        first: the first IPU's time over the others', where it has the last stage too: below 1
            leaves it memory for the weights that both of its stages read.
    """
    count = len(program.operators)
    if ipus == 1:
        return Cuts((0,), (0,))
    costs: list[float] = []
    for operator in program.operators:
        cost = pricing.cost_of(operator)
        both = cost.forward.cycles * (2 if recompute else 1) + cost.backward.cycles
        costs.append(both if program.settings.training else cost.forward.cycles)
    sums = [0.0, *accumulate(costs)]
    places = _places(program)
    shared = _shared(program)
    if shared is None:
        return _straight(sums, places, ipus)
    begin, end = shared
    if not any(begin < place <= end for place in places) or ipus < 2:
        return None
    return _folded(sums, [p for p in places if begin < p <= end], ipus, count, first)


def _places(program: Program) -> list[int]:
    """Positions in front of which a cut is cheap: fewest bytes alive of those around."""
    roots = Roots(program.operators)
    made: dict[str, tuple[int, int]] = {}
    last: dict[str, int] = {}
    for index, operator in enumerate(program.operators):
        for tensor in operator.outputs:
            if tensor.role == "activation":
                made[tensor.name] = (index, tensor.bytes)
        for tensor in operator.read:
            for root in roots.of(tensor):
                last[root.name] = index
    change = [0] * (len(program.operators) + 2)
    for name, (index, size) in made.items():
        if last.get(name, index) > index:
            change[index + 1] += size
            change[last[name] + 1] -= size
    alive, crossing = 0, []
    for index in range(len(program.operators)):
        alive += change[index]
        crossing.append(alive)
    found = []
    for index in range(1, len(crossing)):
        around = crossing[max(1, index - _WINDOW) : index + _WINDOW + 1]
        if crossing[index] <= min(around):
            found.append(index)
    return found


def _shared(program: Program) -> tuple[int, int] | None:
    """First and last reader of the weights whose readers are far apart, None without any."""
    readers: dict[str, list[int]] = {}
    for index, operator in enumerate(program.operators):
        for tensor in operator.read:
            if tensor.role == "weight":
                readers.setdefault(tensor.name, []).append(index)
    apart = [
        (found[0], found[-1])
        for found in readers.values()
        if found[-1] - found[0] > max(_WINDOW, len(program.operators) // 4)
    ]
    if not apart:
        return None
    return max(first for first, _ in apart), min(last for _, last in apart)


def _fill(
    sums: Sequence[float], places: Sequence[int], start: int, parts: int, limit: float, end: int
) -> list[int] | None:
    """Starts of at most `parts` parts of [start, end) that cost at most `limit` each."""
    starts = [start]
    previous = start
    for place in [*(p for p in places if start < p < end), end]:
        if sums[place] - sums[starts[-1]] > limit:
            if previous == starts[-1] or len(starts) == parts:
                return None
            starts.append(previous)
            if sums[place] - sums[previous] > limit:
                return None
        previous = place
    return starts


def _straight(sums: Sequence[float], places: Sequence[int], ipus: int) -> Cuts | None:
    end = len(sums) - 1
    low, high = sums[-1] / ipus, sums[-1]
    best: list[int] | None = None
    for _ in range(_HALVINGS):
        limit = (low + high) / 2
        found = _fill(sums, places, 0, ipus, limit, end)
        if found is None:
            low = limit
        else:
            best, high = found, limit
    if best is None or len(best) < ipus:
        return None
    return Cuts(tuple(best), tuple(range(len(best))))


def _folded(
    sums: Sequence[float], places: Sequence[int], ipus: int, count: int, first: float
) -> Cuts | None:
    """The last stage on the first IPU, the middle on the others."""
    if len(places) < 2:
        return None
    tail = places[-1]
    low, high = sums[-1] / ipus, sums[-1]
    best: list[int] | None = None
    for _ in range(_HALVINGS):
        limit = (low + high) / 2
        head = sums[count] - sums[tail]
        fitting = [p for p in places[:-1] if sums[p] + head <= limit * first]
        begin = fitting[-1] if fitting else places[0]
        found = _fill(sums, places, begin, ipus - 1, limit, tail)
        if found is None:
            low = limit
        else:
            best, high = found, limit
    if best is None or len(best) < ipus - 1:
        return None
    return Cuts((0, *best, tail), (0, *range(1, ipus), 0))
