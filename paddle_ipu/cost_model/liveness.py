"""Which tensors of a pipeline stage are alive when: forward, kept for backward, backward.

An operator's output is alive from the operator to its last reader. What gradients read (the
`gradient` of an operator's row in :mod:`paddle_ipu.popart.operators`) is kept until the gradient
of its first reader is done; where forward is computed again, only what crosses the borders of the
recomputed segments is kept and each segment's tensors come back one segment at a time. Views share
their first input's memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from paddle_ipu.cost_model.program import Operator, Program, Tensor
from paddle_ipu.popart.op_schema import ALL

_NORMS = frozenset({"norm", "softmax"})
_SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_IN_PLACE = frozenset({"map", "random", "norm", "softmax"})


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of the schedule: bytes alive on its IPU meanwhile, beside what always is."""

    label: str
    phase: str
    bytes: float


@dataclass(slots=True)
class StageLiveness:
    """What a stage keeps between forward and backward, and its schedule.

    Attributes:
        stash: tensors kept from a micro-batch's forward to its backward.
        forward, backward: the schedule; bytes without the stash.
        again: operators that backward computes again.
        peak_tensors: those alive at the backward or forward step that has the most.
        passing: tensor -> bytes that the stage receives of it, and of its gradient, to send on.
    """

    stash: list[Tensor] = field(default_factory=list)
    forward: list[Step] = field(default_factory=list)
    backward: list[Step] = field(default_factory=list)
    again: list[Operator] = field(default_factory=list)
    peak_tensors: list[Tensor] = field(default_factory=list)
    passing: dict[str, int] = field(default_factory=dict)

    @property
    def stash_bytes(self) -> int:
        """Bytes of one micro-batch's stash."""
        return sum(tensor.bytes for tensor in self.stash)


class Roots:
    """Resolves views: the tensors whose memory a tensor is."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._roots: dict[str, tuple[Tensor, ...]] = {}
        for operator in operators:
            if not operator.is_view or not operator.read:
                continue
            several = operator.op_type == "Concat"
            seen = operator.read if several else operator.read[:1]
            roots = tuple({r.name: r for tensor in seen for r in self.of(tensor)}.values())
            for output in operator.outputs:
                self._roots[output.name] = roots

    def of(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The tensors that hold a tensor's memory: itself where it is no view."""
        return self._roots.get(tensor.name, (tensor,))


def read_by_gradient(operator: Operator) -> list[Tensor]:
    """What an operator's gradient reads of forward, weights and constants left out."""
    if not operator.gradient:
        return []
    reads = operator.gradient_reads
    inputs = _picked(operator.inputs, reads.inputs)
    outputs = _picked(operator.outputs, reads.outputs)
    tensors = [
        t for t in (*inputs, *outputs) if t is not None and t.role in ("activation", "input")
    ]
    # A sum reads nothing, a product what it multiplies with: not by constants or weights alone.
    if operator.op_type in ("Mul", "Div") and any(t.role == "constant" for t in operator.read):
        return [t for t in tensors if t in operator.outputs]
    return tensors


def of_all_iterations(tensor: Tensor) -> Tensor:
    """What is left of a tensor where each iteration of the loops around it leaves its own."""
    return replace(tensor, elements=tensor.iterations * tensor.elements, iterations=1)


def _picked(tensors: Sequence[Tensor | None], positions: tuple[int, ...]) -> list[Tensor | None]:
    if positions == ALL:
        return list(tensors)
    return [tensors[p] for p in positions if p < len(tensors)]


def stage_liveness(
    operators: Sequence[Operator],
    roots: Roots,
    *,
    training: bool,
    recompute: str,
    stashed: bool = False,
    spared: bool = False,
    outgoing: frozenset[str] = frozenset(),
) -> StageLiveness:
    """The liveness of one stage.

    Args:
        stashed: other micro-batches come between forward and backward, so that what is kept is
            copied aside; else it just stays alive.
        spared: the last segment is not computed again, since backward begins with it at once.
        recompute: PopART's RecomputationType, ``NoRecompute`` for a stage that is not.
        outgoing: tensors that other stages or the host read.
    """
    if not training:
        walk = _Walk(operators, roots, {}, outgoing)
        walk.forward(operators, "forward")
        return StageLiveness(forward=walk.steps, peak_tensors=walk.peak)
    segments = _segments(operators, roots, recompute)
    if segments is None or (spared and len(segments) < 2):
        kept = _kept(operators, roots, recompute)
        again = [op for op in operators if _again(op, recompute)]
        walk = _Walk(operators, roots, {} if stashed else kept, outgoing)
        walk.forward(operators, "forward")
        back = _Walk(operators, roots, kept, frozenset())
        # Inputs lie in the buffers of their streams.
        sizes = {
            n: 0.0 if stashed or t.role == "input" else float(t.bytes) for n, t in kept.items()
        }
        back.backward(operators, sizes, {n: t for n, t in kept.items() if sizes[n]})
        peak = max(walk, back, key=lambda w: w.most).peak
        stash = list(kept.values()) if stashed else []
        return StageLiveness(stash, walk.steps, back.steps, again, peak)
    crossing = _crossing(segments, roots)
    before = [op for segment in (segments[:-1] if spared else segments) for op in segment]
    forward = _Walk(operators, roots, {}, outgoing)
    forward.forward(before, "forward")
    result = StageLiveness(list(crossing.values()), forward.steps, peak_tensors=forward.peak)
    most = forward.most
    grads: Mapping[str, Tensor] = {}
    for number, segment in reversed(list(enumerate(segments, 1))):
        is_spared = spared and number == len(segments)
        kept = {n: t for n, t in _kept(segment, roots, "NoRecompute").items() if n not in crossing}
        walk = _Walk(segment, roots, {**crossing, **kept}, frozenset(), grads)
        walk.forward(segment, "forward" if is_spared else "recompute")
        done = len(walk.steps)
        walk.backward(segment, {n: float(t.bytes) for n, t in kept.items()}, kept)
        if is_spared:
            result.forward += walk.steps[:done]
            walk.steps = walk.steps[done:]
        else:
            result.again += segment
        result.backward += walk.steps
        grads = walk.gradients.now
        if walk.most > most:
            most, result.peak_tensors = walk.most, walk.peak
    return result


def _is_in_place(operator: Operator) -> bool:
    return operator.cost is not None and operator.cost.kind in _IN_PLACE


def _again(operator: Operator, recompute: str) -> bool:
    cost = operator.cost
    if recompute != "NormOnly" or cost is None:
        return False
    return cost.kind in _NORMS or (cost.kind == "map" and len(operator.read) == 1)


def _kept(operators: Sequence[Operator], roots: Roots, recompute: str) -> dict[str, Tensor]:
    """What gradients read, by name of the tensors that hold its memory, of all loop iterations."""
    made_again = {t.name for op in operators if _again(op, recompute) for t in op.outputs}
    kept: dict[str, Tensor] = {}
    for operator in operators:
        read = read_by_gradient(operator)
        if _again(operator, recompute):
            read = [t for t in operator.read if t.role in ("activation", "input")]
        for tensor in read:
            for root in roots.of(tensor):
                if root.name not in made_again and root.role in ("activation", "input"):
                    kept[root.name] = of_all_iterations(root)
    return kept


def _segments(
    operators: Sequence[Operator], roots: Roots, recompute: str
) -> list[list[Operator]] | None:
    """The segments that backward computes again one by one; None where nothing is."""
    if recompute not in ("Standard", "Pipeline", "RecomputeAll"):
        return None
    ends = [index + 1 for index, operator in enumerate(operators) if operator.checkpoint]
    if not ends and recompute != "Pipeline":
        ends = _best_cuts(operators, roots)
    borders = [0, *(end for end in ends if end < len(operators)), len(operators)]
    return [
        list(operators[start:end])
        for start, end in zip(borders, borders[1:], strict=False)
        if end > start
    ]


def _best_cuts(operators: Sequence[Operator], roots: Roots) -> list[int]:
    """Segment ends for the least peak: what is kept between segments and for the largest one.

    Tried are several numbers of segments of equal bytes, each end moved to where fewest bytes are
    alive nearby.
    """
    kept = _kept(operators, roots, "NoRecompute")
    sizes = [sum(t.bytes for t in op.outputs if t.name in kept) for op in operators]
    made = {t.name: at for at, op in enumerate(operators) for t in op.outputs}
    last: dict[str, tuple[int, int]] = {}
    for at, operator in enumerate(operators):
        for tensor in operator.read:
            for root in roots.of(tensor):
                if root.role == "activation" and root.name in made:
                    last[root.name] = (at, root.bytes)
    change = [0] * (len(operators) + 1)
    for name, (at, size) in last.items():
        change[made[name] + 1] += size
        change[at + 1] -= size if at + 1 < len(change) else 0
    alive = list(accumulate(change))
    sums = [0, *accumulate(sizes)]
    candidates = [_cuts(alive, sums, parts) for parts in _SEGMENTS if parts <= len(operators)]
    return min(candidates, default=(0, []))[1]


def _cuts(alive: Sequence[int], sums: Sequence[int], parts: int) -> tuple[int, list[int]]:
    """The ends of so many segments, and the bytes of their peak."""
    cuts: list[int] = []
    for number in range(1, parts):
        low, high = (bisect_left(sums, sums[-1] * (number + by) / parts) for by in (-0.4, 0.4))
        low = max(low, cuts[-1] + 1 if cuts else 1)
        if low < min(high, len(alive) - 1):
            cuts.append(min(range(low, min(high, len(alive) - 1)), key=lambda at: alive[at]))
    borders = [0, *cuts, len(sums) - 1]
    largest = max(sums[end] - sums[start] for start, end in pairwise(borders))
    return sum(alive[cut] for cut in cuts) + largest, cuts


def _crossing(segments: Sequence[Sequence[Operator]], roots: Roots) -> dict[str, Tensor]:
    """What the segments read of one another and of other stages: forward keeps it."""
    made: dict[str, int] = {}
    for number, segment in enumerate(segments):
        for operator in segment:
            for tensor in operator.outputs:
                made[tensor.name] = number
    crossing: dict[str, Tensor] = {}
    for number, segment in enumerate(segments):
        for operator in segment:
            for tensor in operator.read:
                for root in roots.of(tensor):
                    if root.role in ("activation", "input") and made.get(root.name) != number:
                        crossing[root.name] = of_all_iterations(root)
    return crossing


class Held:
    """Tensors that come and go, and which there were at a marked moment."""

    def __init__(self, tensors: Mapping[str, Tensor] | None = None) -> None:
        self.now: dict[str, Tensor] = {}
        self._events: list[tuple[str, Tensor | None]] = []
        self._marked = 0
        for name, tensor in (tensors or {}).items():
            self.add(name, tensor)

    def add(self, name: str, tensor: Tensor) -> None:
        """One more."""
        self.now[name] = tensor
        self._events.append((name, tensor))

    def drop(self, name: str) -> int:
        """One less; returns its bytes, 0 where it was not there."""
        tensor = self.now.pop(name, None)
        if tensor is None:
            return 0
        self._events.append((name, None))
        return tensor.bytes

    def bytes(self) -> int:
        """Bytes of those that are there."""
        return sum(tensor.bytes for tensor in self.now.values())

    def mark(self) -> None:
        """Marks this moment; a mark costs nothing, as walks mark at every new peak."""
        self._marked = len(self._events)

    def marked(self) -> list[Tensor]:
        """Those that were there at the last mark."""
        live: dict[str, Tensor] = {}
        for name, tensor in self._events[: self._marked]:
            if tensor is None:
                del live[name]
            else:
                live[name] = tensor
        return list(live.values())


class _Walk:
    """Goes through operators, adding and dropping tensors."""

    def __init__(
        self,
        operators: Sequence[Operator],
        roots: Roots,
        kept: Mapping[str, Tensor],
        outgoing: frozenset[str],
        gradients: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.most = -1.0
        self.gradients = Held(gradients)
        self._roots = roots
        self._kept = kept
        self._alive = Held()
        self._last: dict[str, int] = {}
        for index, operator in enumerate(operators):
            for tensor in operator.read:
                for root in roots.of(tensor):
                    self._last[root.name] = index
        for name in outgoing:
            self._last[name] = len(operators)

    @property
    def peak(self) -> list[Tensor]:
        """What was alive at the step that had the most."""
        return [*self._alive.marked(), *self.gradients.marked()]

    def forward(self, operators: Sequence[Operator], phase: str) -> None:
        """Adds what operators make, and drops what was read for the last time and is not kept."""
        total = float(self._alive.bytes() + self.gradients.bytes())
        for index, operator in enumerate(operators):
            dead = [
                root
                for tensor in operator.read
                for root in self._roots.of(tensor)
                if self._last[root.name] == index
                and root.name not in self._kept
                and root.name in self._alive.now
            ]
            # PopART writes the results of such operators over an operand that nobody else reads.
            early = dead if _is_in_place(operator) else []
            for root in early[:1]:
                total -= self._alive.drop(root.name)
            if not operator.is_view:
                for tensor in operator.outputs:
                    if tensor.role == "activation" and self._is_new(tensor):
                        held = self._kept.get(tensor.name, tensor)
                        self._alive.add(tensor.name, held)
                        total += held.bytes
            self._step(operator, phase, total)
            for root in dead:
                total -= self._alive.drop(root.name)

    def _is_new(self, tensor: Tensor) -> bool:
        needed = tensor.name in self._last or tensor.name in self._kept
        return needed and tensor.name not in self._alive.now

    def backward(
        self,
        operators: Sequence[Operator],
        kept: Mapping[str, float],
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Goes back: gradients come and go, and what is kept is dropped with its last gradient.

        Args:
            kept: name -> bytes that become free once the gradients that read it are done; 0 where
                they belong to the stash.
        """
        first: dict[str, int] = {}
        for index in range(len(operators) - 1, -1, -1):
            for tensor in read_by_gradient(operators[index]):
                for root in self._roots.of(tensor):
                    first[root.name] = index
        alive = {name: size for name, size in kept.items() if size}
        total = sum(alive.values()) + self.gradients.bytes()
        if tensors:
            for name in [name for name in self._alive.now if name not in tensors]:
                self._alive.drop(name)
            for name, tensor in tensors.items():
                self._alive.add(name, tensor)
        dropped: dict[int, list[str]] = {}
        for name in alive:
            dropped.setdefault(first.get(name, 0), []).append(name)
        for index in range(len(operators) - 1, -1, -1):
            operator = operators[index]
            if operator.gradient:
                if _is_in_place(operator):
                    total -= self._drop_gradients(operator)
                new = 0.0
                for tensor in operator.read:
                    if not tensor.has_gradient:
                        continue
                    if tensor.role == "weight":
                        # On its way into the accumulator.
                        new += tensor.bytes
                        continue
                    for root in self._roots.of(tensor):
                        if root.name not in self.gradients.now and root.role == "activation":
                            self.gradients.add(root.name, root)
                            total += root.bytes
                self._step(operator, "backward", total + new)
                total -= self._drop_gradients(operator)
            for name in dropped.get(index, ()):
                total -= alive.pop(name)
                self._alive.drop(name)

    def _drop_gradients(self, operator: Operator) -> float:
        """Forgets the gradients of an operator's outputs; returns their bytes."""
        return float(sum(self.gradients.drop(tensor.name) for tensor in operator.outputs))

    def _step(self, operator: Operator, phase: str, total: float) -> None:
        self.steps.append(Step(operator.name, phase, total))
        if total > self.most:
            self.most = total
            self._alive.mark()
            self.gradients.mark()


def stage_operators(program: Program) -> dict[int, list[Operator]]:
    """The operators of each of :attr:`Program.stages`, in program order."""
    groups: dict[int, list[Operator]] = {stage: [] for stage in program.stages}
    for operator in program.operators:
        groups[operator.stage if program.settings.pipelined else operator.ipu].append(operator)
    return groups
