"""Cuts a program into one run of operators for each IPU, for ``need_avg_shard``.

An IPU build of Paddle makes parts of equal length. Here the slowest part is made as fast as it can
be, and the cuts lie where few bytes cross. Where that does not fit in memory, memory counts as
well, ever more. Parts of equal length stay where they fit and are about as fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from paddle_ipu.cost_model.liveness import Roots, of_all_iterations, read_by_gradient
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory import livenesses, predict_memory
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.placement import crossing_bytes, operator_cycles
from paddle_ipu.cost_model.program import Program

_WORTH = 0.95
"""Other cuts than those of equal length have to bring the slowest part below this share."""
_SLACK = 1.03
"""What the slowest part may lose for a cut that fewer bytes cross."""
_BLENDS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much memory counts beside time, tried in this order."""
_HALVINGS = 40


def even_starts(count: int, parts: int) -> list[int]:
    """Starts of parts of equal length; the last one takes what is left over."""
    length = count // parts
    return [part * length for part in range(parts)]


def shard(
    program: Program, groups: Mapping[str, int], count: int, parts: int, machine: Machine
) -> list[int]:
    """In front of which groups of operators a program is cut.

    Args:
        program: its operators need no places.
        groups: operator -> its group, a number below `count`; groups stand in program order, and
            an operator that has none belongs to the group before it.
        count: of groups; at least as many as parts.
        parts: how many there are to be.
        machine: on which it is to be fast and to fit.

    Returns:
        The first group of each part.
    """
    group_of = _groups(program, groups)
    pricing = Pricing(machine.processor)
    recomputes = program.settings.recomputation != "NoRecompute"
    times = [0.0] * count
    for group, time in zip(group_of, operator_cycles(program, pricing, recomputes), strict=True):
        times[group] += time
    crossing = crossing_bytes(program, group_of, count)
    memories = _memories(program, group_of, times, parts)
    even = even_starts(count, parts)
    limit = max(_sums(times, even)) * _WORTH
    best, least = even, float("inf")
    for blend in _BLENDS:
        weights = [
            (1 - blend) * time + blend * memory
            for time, memory in zip(_normal(times), _normal(memories), strict=True)
        ]
        starts = cut(weights, crossing, parts)
        if blend == 0.0 and max(_sums(times, starts)) > limit:
            starts = even
        over = _over(program, group_of, starts, machine, pricing)
        if over < least:
            best, least = starts, over
        if not over:
            break
    return best


def cut(weights: Sequence[float], crossing: Sequence[float], parts: int) -> list[int]:
    """Starts of parts whose largest weight is least, within `_SLACK`, where least crosses.

    Args:
        weights: of each group.
        crossing: bytes that cross a cut in front of each group.
    """
    count = len(weights)
    sums = [0.0, *accumulate(weights)]
    low, high = max(max(weights), sums[-1] / parts), sums[-1]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _needed(sums, middle)[0] <= parts:
            high = middle
        else:
            low = middle
    limit = high * _SLACK
    needed = _needed(sums, limit)
    starts = [0]
    for left in range(parts - 1, 0, -1):
        start = starts[-1]
        ends = [
            end
            for end in range(start + 1, count - left + 1)
            if sums[end] - sums[start] <= limit and needed[end] <= left
        ]
        # A group may be larger than it should be by rounding alone.
        ends = ends or [start + 1]
        share = (sums[-1] - sums[start]) / (left + 1)
        starts.append(min(ends, key=lambda e: (crossing[e], abs(sums[e] - sums[start] - share))))
    return starts


def _needed(sums: Sequence[float], limit: float) -> list[int]:
    """How many parts of at most `limit` the groups from each one on make."""
    count = len(sums) - 1
    needed = [0] * (count + 1)
    end = count
    for start in range(count - 1, -1, -1):
        while end > start + 1 and sums[end] - sums[start] > limit:
            end -= 1
        needed[start] = 1 + needed[end]
    return needed


def _sums(weights: Sequence[float], starts: Sequence[int]) -> list[float]:
    ends = [*starts[1:], len(weights)]
    return [sum(weights[start:end]) for start, end in zip(starts, ends, strict=True)]


def _normal(weights: Sequence[float]) -> list[float]:
    total = sum(weights) or 1.0
    return [weight / total for weight in weights]


def _groups(program: Program, groups: Mapping[str, int]) -> list[int]:
    cuts, last = [], 0
    for operator in program.operators:
        last = groups.get(operator.name, last)
        cuts.append(last)
    return cuts


def _memories(
    program: Program, group_of: Sequence[int], times: Sequence[float], parts: int
) -> list[float]:
    """Weights, with what training keeps of each, and what is left for backward.

    In a pipeline the first part keeps that of 2 (parts - 1) + 1 micro-batches, the last one of one;
    where a group will be is told by the time before it.
    """
    settings = program.settings
    memories = [0.0] * len(times)
    total = sum(times) or 1.0
    later = 2 * (parts - 1) * (settings.pipelined and settings.training)
    depths = [1 + later * (1 - before / total) for before in (0.0, *accumulate(times))]
    seen: set[str] = set()
    roots = Roots(program.operators)
    for operator, group in zip(program.operators, group_of, strict=True):
        for tensor in operator.read:
            if tensor.role == "weight" and tensor.name not in seen:
                seen.add(tensor.name)
                copies = 1 + (settings.training and settings.accumulation > 1)
                state = program.state.get(tensor.name, 0) if settings.state_on_chip else 0
                memories[group] += copies * tensor.bytes + state
        kept = read_by_gradient(operator) if settings.training else []
        for root in (root for tensor in kept for root in roots.of(tensor)):
            if root.name not in seen:
                seen.add(root.name)
                memories[group] += depths[group] * of_all_iterations(root).bytes
    return memories


def _over(
    program: Program,
    group_of: Sequence[int],
    starts: Sequence[int],
    machine: Machine,
    pricing: Pricing,
) -> int:
    """Bytes that the IPU with the least room lacks; 0 where all fits."""
    part_of = [0] * (max([*group_of, starts[-1]]) + 1)
    for number, start in enumerate(starts):
        part_of[start:] = [number] * (len(part_of) - start)
    operators = tuple(
        replace(operator, ipu=part_of[group], stage=part_of[group])
        for operator, group in zip(program.operators, group_of, strict=True)
    )
    placed = replace(program, operators=operators)
    return predict_memory(placed, machine, pricing, livenesses(placed)).worst.over
