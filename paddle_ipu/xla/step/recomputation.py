"""Which part of forward is computed again in backward, as PopART's recomputation options say.

Backward needs the results of forward's operators. Those between two cuts of the program are not
kept: each such segment is evaluated under ``jax.checkpoint``, which keeps what the segment reads,
and evaluates it a second time when its gradient is due. Operators are in program order; a cut is
a position in it.

    NoRecompute   the operators that the builder marks as recomputed, nothing without marks
    Standard      cuts where they make the least peak, by the sizes of the results
    NormOnly      normalisations, and activation functions that follow them
    Pipeline      every stage of the pipeline but the last, from what it reads
    RecomputeAll  everything between checkpoints; without checkpoints as Standard

``Builder.checkpointOutput`` is a cut wherever an option asks for recomputation. Behind the last cut
backward begins at once, so nothing is computed again there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.annotations import RECOMPUTE
from paddle_ipu.popart.enums import RecomputeType
from paddle_ipu.popart.program import dims_of
from paddle_ipu.popart.schema import all_schemas
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.step.segments import Segment

_NORMS = frozenset({
    "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LpNormalization",
})  # fmt: skip
_ACTIVATIONS = frozenset(
    row.op_type for row in all_schemas() if row.cost is not None and row.cost.nonlinearity
)

_PLACES = 128
"""How many positions are looked at for cuts."""
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Into how many parts, of equal size, the best cuts are looked for."""


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What a session's options ask for.

    Attributes:
        kind: name of PopART's ``RecomputationType``.
        stages: first result of a node -> its pipeline stage.
    """

    kind: str = "NoRecompute"
    stages: Mapping[str, int] = field(default_factory=dict)


def plan(
    graph: ir.Graph,
    nodes: Sequence[LoweredNode],
    wanted: Recomputation,
    needed: Sequence[str],
    stays: Callable[[LoweredNode], bool],
) -> list[Segment]:
    """Cuts a program into segments; empty where nothing is to be computed again.

    Args:
        graph: the program, with the marks of its nodes.
        nodes: the operators that are evaluated, in order.
        needed: tensors that are read behind all of them.
        stays: whether an operator may be evaluated once only.
    """
    marks = {
        str(value.name): int(node.attributes[RECOMPUTE].value)
        for node in graph
        if RECOMPUTE in node.attributes
        for value in node.outputs
    }
    program = _Program(graph, nodes, needed)
    checkpoints = _places(nodes, marks, RecomputeType.Checkpoint)
    cuts = {place + 1 for place in checkpoints}
    again: set[int] | None = None
    if wanted.kind in ("NoRecompute", "NormOnly"):
        again = _places(nodes, marks, RecomputeType.Recompute)
        if wanted.kind == "NormOnly":
            again |= _norms(nodes) - checkpoints
        parts = program.around(again)
    elif wanted.kind == "Pipeline":
        stages = _stages(nodes, wanted.stages)
        cuts |= {at for at in range(1, len(nodes)) if stages[at] != stages[at - 1]}
        last = max(stages, default=0)
        parts = [(first, end, stages[first] != last) for first, end, _ in program.between(cuts)]
    else:
        if wanted.kind == "Standard" or not cuts:
            cuts |= program.best_cuts(cuts)
        parts = program.between(cuts)
    if not any(recomputed for *_, recomputed in parts):
        return []
    return [
        _segment(program, again, *part)
        for whole in parts
        for part in _without(nodes, stays, *whole)
    ]


def _places(nodes: Sequence[LoweredNode], marks: Mapping[str, int], kind: Any) -> set[int]:
    return {
        at
        for at, node in enumerate(nodes)
        if any(marks.get(name) == int(kind) for name in node.outputs)
    }


def _stages(nodes: Sequence[LoweredNode], known: Mapping[str, int]) -> list[int]:
    """Each operator's stage; constants have none of their own."""
    stages: list[int] = []
    for node in nodes:
        before = stages[-1] if stages else 0
        stages.append(known.get(node.outputs[0], before) if node.outputs else before)
    return stages


def _norms(nodes: Sequence[LoweredNode]) -> set[int]:
    norms, results = set[int](), set[str]()
    for at, node in enumerate(nodes):
        follows = node.op_type in _ACTIVATIONS and results.intersection(filter(None, node.inputs))
        if node.op_type in _NORMS or follows:
            norms.add(at)
            results.update(node.outputs)
    return norms


def _without(
    nodes: Sequence[LoweredNode],
    stays: Callable[[LoweredNode], bool],
    first: int,
    last: int,
    recomputed: bool,
) -> list[tuple[int, int, bool]]:
    """A segment, parted at operators that may be evaluated once only."""
    if not recomputed:
        return [(first, last, False)]
    parts = []
    for at in range(first, last):
        if stays(nodes[at]):
            parts += [(first, at, True), (at, at + 1, False)]
            first = at + 1
    return [part for part in (*parts, (first, last, True)) if part[0] < part[1]]


def _segment(
    program: _Program, again: set[int] | None, first: int, last: int, recomputed: bool
) -> Segment:
    nodes = program.nodes[first:last]
    kept = frozenset[str]()
    if again is not None:
        kept = frozenset(
            name for at, node in enumerate(nodes, first) if at not in again for name in node.outputs
        )
    results = tuple(n for node in nodes for n in node.outputs if program.last_use[n] >= last)
    return Segment(first, last, recomputed, kept, results)


class _Program:
    """Sizes and lifetimes of the results."""

    def __init__(
        self, graph: ir.Graph, nodes: Sequence[LoweredNode], needed: Sequence[str]
    ) -> None:
        self.nodes = nodes
        sizes = {str(value.name): _bytes(value) for node in graph for value in node.outputs}
        self.last_use: dict[str, int] = {
            name: at for at, node in enumerate(nodes) for name in node.outputs
        }
        for at, node in enumerate(nodes):
            for name in node.inputs:
                if name in self.last_use:
                    self.last_use[name] = at
        own = [
            [(sizes.get(name, 0), self.last_use[name]) for name in node.outputs] for node in nodes
        ]
        self._made = np.asarray([sum(size for size, _ in row) for row in own], np.float64)
        self._own = own
        for name in needed:
            if name in self.last_use:
                self.last_use[name] = len(nodes)

    def around(self, again: set[int]) -> list[tuple[int, int, bool]]:
        """Segments that hold each operator in `again` with all that read its results."""
        parts: list[tuple[int, int, bool]] = []
        first = end = 0
        for at in range(len(self.nodes)):
            if at >= end and at in again:
                if at > first:
                    parts.append((first, at, False))
                first, end = at, at + 1
            if at in again:
                uses = [self.last_use[name] for name in self.nodes[at].outputs]
                end = max(end, min(max(uses, default=at) + 1, len(self.nodes)))
            if end and at + 1 == end:
                parts.append((first, end, True))
                first, end = end, 0
        if first < len(self.nodes):
            parts.append((first, len(self.nodes), False))
        return parts

    def between(self, cuts: set[int]) -> list[tuple[int, int, bool]]:
        """Segments from cut to cut, all recomputed but the last."""
        places = sorted({0, len(self.nodes)} | {cut for cut in cuts if cut < len(self.nodes)})
        pairs = list(zip(places, places[1:], strict=False))
        return [(first, last, last < len(self.nodes)) for first, last in pairs]

    def best_cuts(self, fixed: set[int]) -> set[int]:
        """The cuts with the least sum of what is kept at them and of the largest segment."""
        places = self._candidates(fixed)
        total = np.concatenate([[0.0], np.cumsum(self._made)])
        # What is made in between two places and still read behind the second one.
        crossing = np.zeros((len(places), len(self.nodes) + 1))
        for row, place in enumerate(places):
            alive = [sum(size for size, use in own if use >= place) for own in self._own]
            crossing[row, 1:] = np.cumsum(alive)
        barriers = {row for row, place in enumerate(places) if place in fixed}
        best: tuple[float, set[int]] = (np.inf, set())
        for number in _PARTS:
            limit = total[-1] / number
            candidate = _cheapest(places, total, crossing, barriers, limit)
            if candidate is not None and candidate[0] < best[0]:
                best = candidate
        return best[1]

    def _candidates(self, fixed: set[int]) -> list[int]:
        """Positions where little is alive, some in each part of the program, and its ends."""
        count = len(self.nodes)
        change = np.zeros(count + 2)
        for at, own in enumerate(self._own):
            for size, use in own:
                change[at + 1] += size
                change[use + 1] -= size
        alive = np.cumsum(change)[: count + 1]
        buckets = np.array_split(np.arange(1, count), min(_PLACES, max(count - 1, 1)))
        cuts = {int(part[np.argmin(alive[part])]) for part in buckets if part.size}
        return sorted(cuts | {cut for cut in fixed if cut < count} | {0, count})


def _cheapest(
    places: Sequence[int], total: Any, crossing: Any, barriers: set[int], limit: float
) -> tuple[float, set[int]] | None:
    """(peak, cuts) of the cheapest cuts with no segment above a limit; None where there are none.

    What crosses several cuts is kept once.
    """
    ends = len(places)
    cost, before = np.full(ends, np.inf), np.full(ends, -1)
    cost[0] = 0.0
    for end in range(1, ends):
        for start in range(end - 1, -1, -1):
            inner = total[places[end]] - total[places[start]]
            if inner > limit and start < end - 1:
                break
            kept = crossing[end, places[end]] - crossing[end, places[start]]
            if cost[start] + kept < cost[end]:
                cost[end], before[end] = cost[start] + kept, start
            if start in barriers:
                break
    cuts, largest, at = set[int](), 0.0, ends - 1
    while at > 0:
        start = int(before[at])
        largest = max(largest, float(total[places[at]] - total[places[start]]))
        if start > 0:
            cuts.add(places[start])
        at = start
    return float(cost[-1]) + largest, cuts


def _bytes(value: ir.Value) -> int:
    dims = [dim for dim in dims_of(value) if dim > 0] if value.shape is not None else []
    return int(np.prod(dims, dtype=np.int64)) * 4
