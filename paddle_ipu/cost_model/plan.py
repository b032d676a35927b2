"""What if: strategies for a program and a machine, the fastest that fits with room first.

Rates that are nearly the same are a tie, which the memory to spare decides.

Tried are the IPUs of a replica (and as many replicas as fill the machine), the micro-batch, the
accumulation that makes the global batch of both, recomputation, where optimizer state lives, and
less memory for matrix products and convolutions. Where no replicas that fill the machine make the
batch, fewer are tried.
Placements are :mod:`paddle_ipu.cost_model.placement`'s, and the program's own where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from paddle_ipu.cost_model.advice import LOW_PROPORTION, with_proportion
from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory import MemoryReport, livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.placement import Cuts, balanced, place
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.scaling import with_rows

_T = TypeVar("_T")
_ROWS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 256)
_PROPORTIONS = (0.4, 0.2, LOW_PROPORTION)
_FIRST = (1.0, 0.75, 0.5, 0.25, 0.0)
"""The first IPU's share of the time of the others, where its memory is too small for more."""
_CROSSING = (math.inf, 1.5)
"""How many times the fewest bytes a cut crosses at most; fewer for long pipelines, whose stages
stash them."""
_MOST_IPUS, _MORE_IPUS = 16, 8
"""IPUs of a replica at most; where weights take more than half of those, times what they take."""
_OFF = 0.03
"""By what share the global batch may differ from the wanted one."""
TIE = 0.01
"""Rates that differ by less, over the higher one, are a tie."""
SURE = 0.9
"""Share of the fullest tile below which it does not matter how much of it is free: it fits, too,
where ``tile_imbalance`` is at the end of what is believed of it."""
MOST = 400
"""Candidates that are tried at most."""
PLANNED = (
    *("ipus", "replicas", "accumulation", "batches_per_step", "recomputation"),
    *("state_on_chip", "state_sharded"),
)
"""Fields of :class:`Settings` in which candidates of one placement differ."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One strategy with its prediction; `cuts` is None for the program's own placement."""

    prediction: Prediction
    cuts: Cuts | None

    @property
    def batch(self) -> int:
        """Rows of a weight update."""
        settings = self.prediction.program.settings
        return self.prediction.program.samples // settings.batches_per_step


def by_speed(candidate: Candidate) -> float:
    """Sorts candidates, the fastest first."""
    return -candidate.prediction.cycles.throughput


def by_room(candidate: Candidate) -> tuple[bool, float]:
    """Sorts candidates: those with room in memory before the others, each kind fastest first."""
    return not candidate.prediction.memory.has_room, by_speed(candidate)


def preferred(found: Iterable[_T], candidate_of: Callable[[_T], Candidate]) -> list[_T]:
    """In the order of :func:`by_room`, but for ties for the first place: the emptiest comes first.

    Memory is compared in hundredths of a tile, and all of it below :data:`SURE` is alike.
    """
    ordered = sorted(found, key=lambda one: by_room(candidate_of(one)))
    if not ordered:
        return ordered

    def share(one: _T) -> float:
        worst = candidate_of(one).prediction.memory.worst
        return max(SURE, round(worst.per_tile / worst.tile_capacity, 2))

    fastest = candidate_of(ordered[0]).prediction
    least = (1.0 - TIE) * fastest.cycles.throughput
    tied = (
        at
        for at, one in enumerate(ordered)
        if candidate_of(one).prediction.memory.has_room == fastest.memory.has_room
        and candidate_of(one).prediction.cycles.throughput >= least
    )
    first = ordered.pop(min(tied, key=lambda at: share(ordered[at])))
    return [first, *ordered]


@dataclass(frozen=True, slots=True)
class Plan:
    """The tried candidates that fit, and how many did not.

    Attributes:
        candidates: those that leave :data:`~paddle_ipu.cost_model.memory.ROOM` first, each kind
            fastest first, but for the first one (:func:`preferred`).
    """

    candidates: tuple[Candidate, ...]
    too_large: int
    closest: Candidate | None

    @property
    def best(self) -> Candidate | None:
        """The fastest that fits with room, else the fastest that fits; of a tie the emptiest."""
        return self.candidates[0] if self.candidates else None

    @property
    def tight(self) -> Candidate | None:
        """The fastest of all, where it is faster than the best for using the room, too."""
        fastest = min(self.candidates, key=by_speed, default=None)
        return None if fastest is None or fastest.prediction.memory.has_room else fastest


def plan(
    program: Program,
    machine: Machine,
    *,
    batch: int = 0,
    most: int = MOST,
    fewer: bool = False,
) -> Plan:
    """Tries strategies for a program on all IPUs of a machine.

    Args:
        batch: rows of a weight update; the program's own where 0. In inference rows at once of
            all replicas; as many as are fastest where 0.
        most: how many candidates are tried.
        fewer: replicas need not fill the machine: they are halved until the batch can be made.
            It is so, too, where otherwise nothing makes the batch.
    """
    if not batch and program.settings.training:
        batch = program.samples // program.settings.batches_per_step
    pricing = Pricing(machine.processor)
    hopeless = _Hopeless()
    placements = _placements(program, machine, batch, pricing, fewer, hopeless)
    result = _tried(machine, pricing, most, placements, hopeless)
    if result.candidates or result.too_large or fewer:
        return result
    return plan(program, machine, batch=batch, most=most, fewer=True)


class _Hopeless:
    """Cuts with which micro-batches of so many rows do not fit: larger ones do not either."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Cuts | None, str], int] = {}

    def add(self, program: Program, cuts: Cuts | None) -> None:
        """Notes a program that was placed by `cuts` and does not fit."""
        key = (cuts, program.settings.recomputation)
        self._rows[key] = min(program.rows, self._rows.get(key, program.rows))

    def has(self, cuts: Cuts | None, recomputation: str, rows: int) -> bool:
        """Whether as many rows, or fewer, did not fit."""
        least = self._rows.get((cuts, recomputation))
        return least is not None and rows >= least


def _tried(
    machine: Machine,
    pricing: Pricing,
    most: int,
    placements: Iterator[Iterator[tuple[Program, Cuts | None]]],
    hopeless: _Hopeless,
) -> Plan:
    fitting: list[Candidate] = []
    too_large, closest, tried = 0, None, 0
    for choices in placements:
        for placed, cuts in choices:
            lives = livenesses(placed)
            fits = fits_first = False
            for number, candidate in enumerate(_variants(placed)):
                if tried == most:
                    break
                tried += 1
                predicted = Candidate(predict(candidate, machine, pricing, lives), cuts)
                if predicted.prediction.memory.fits:
                    fits = True
                    fitting.append(predicted)
                    if not predicted.prediction.memory.has_room:
                        continue
                    fits_first = number == 0
                    # The others of this kind are slower.
                    break
                too_large += 1
                over = predicted.prediction.memory.worst.over
                if closest is None or over < closest.prediction.memory.worst.over:
                    closest = predicted
                if _cannot_fit(predicted.prediction.memory):
                    break
            if not fits and tried < most:
                hopeless.add(placed, cuts)
            if fits_first:
                break
        if tried == most:
            break
    return Plan(tuple(preferred(fitting, lambda one: one)), too_large, closest)


def _cannot_fit(memory: MemoryReport) -> bool:
    """Whether an IPU would be full even without the parts that variants make smaller."""
    for ipu in memory.ipus:
        shrinking = ipu.categories["optimizer state"] + ipu.categories["temporaries"]
        tiles = ipu.capacity // ipu.tile_capacity
        if ipu.per_tile - CONSTANTS.tile_imbalance * shrinking / tiles > ipu.tile_capacity:
            return True
    return False


def resized_plan(
    program: Program,
    *,
    rows: int,
    cuts: Cuts | None,
    settings: Mapping[str, Any],
    proportion: float,
) -> Program:
    """A program as an earlier plan had it, of what was kept of the plan.

    Args:
        settings: fields of :class:`Settings`.
        proportion: the largest share of a tile's memory that a product was given.
    """
    program = with_rows(program, rows)
    if cuts is not None:
        program = place(program, cuts)
    return with_proportion(program.with_settings(**settings), proportion)


def _variants(program: Program) -> Iterator[Program]:
    """Fastest first: state on the chip, off it, and less memory for products."""
    if not program.settings.training:
        yield program
    else:
        yield program.with_settings(state_on_chip=True)
        program = program.with_settings(state_on_chip=False)
        yield program
    largest = max((op.memory_proportion for op in program.operators), default=0.0)
    for proportion in _PROPORTIONS:
        if proportion < largest:
            yield with_proportion(program, proportion)


def _placements(
    program: Program,
    machine: Machine,
    batch: int,
    pricing: Pricing,
    fewer: bool,
    hopeless: _Hopeless,
) -> Iterator[Iterator[tuple[Program, Cuts | None]]]:
    """Placements of one size each: the fastest first, then those with room on the first IPU.

    Args:
        hopeless: what is left out; it grows meanwhile.
        fewer: replicas are halved until the batch can be made, and leave IPUs unused.
    """
    settings = program.settings
    own = max(1, settings.ipus // max(1, settings.replicas))
    # The program's own number of IPUs and rows first: the others are estimates.
    sizes = _sizes(program, machine)
    sizes.sort(key=lambda n: abs(n.bit_length() - own.bit_length()))
    rows = sorted({*_ROWS, program.rows}, key=lambda r: abs(r - program.rows))
    if program.rows_are_fixed:
        rows = [program.rows]
    # What cannot be cut into so many is tried whole, which says what is lacking.
    pipelines = _pipelines(program, sizes, pricing) or _pipelines(program, [1], pricing)
    for micro in rows:
        resized = with_rows(program, micro)
        for ipus, cuts, recompute in pipelines:
            stages = len(resized.stages if cuts[0] is None else cuts[0].starts)
            least = 2 * stages - 1 if settings.training and ipus > 1 else 1
            made = (
                (replicas, accumulation)
                for replicas in (_halved(machine.ipus // ipus) if fewer else [machine.ipus // ipus])
                if (accumulation := _accumulation(program, batch, micro * replicas)) >= least
            )
            replicas, accumulation = next(made, (0, 0))
            if not replicas:
                continue
            batches = settings.batches_per_step
            changes = {
                "ipus": ipus * replicas,
                "replicas": replicas,
                "accumulation": accumulation,
                "batches_per_step": batches if settings.training else max(batches, stages),
                "recomputation": recompute,
                "state_sharded": replicas > 1,
            }
            yield _placed(
                resized, [c for c in cuts if not hopeless.has(c, recompute, micro)], changes
            )


def _pipelines(
    program: Program, sizes: Sequence[int], pricing: Pricing
) -> list[tuple[int, list[Cuts | None], str]]:
    """Of each number of IPUs that a program can be cut for: (IPUs, cuts, recomputation)."""
    settings = program.settings
    own = max(1, settings.ipus // max(1, settings.replicas))
    pipelines: list[tuple[int, list[Cuts | None], str]] = []
    for ipus in sizes:
        for recompute in _recomputations(program, ipus):
            again = recompute != "NoRecompute"
            shares = _FIRST if ipus > 2 else _FIRST[:1]
            splits = [
                balanced(program, ipus, pricing, again, first, crossing)
                for crossing in (_CROSSING if ipus > _MOST_IPUS else _CROSSING[:1])
                for first in shares
            ]
            cuts: list[Cuts | None] = list(dict.fromkeys(c for c in splits if c is not None))
            if cuts:
                pipelines.append((ipus, cuts, recompute))
            if ipus == own and settings.pipelined:
                pipelines.append((ipus, [None], recompute))
    return pipelines


def _sizes(program: Program, machine: Machine) -> list[int]:
    """IPUs of a replica, powers of two; from the first that holds the weights on, where that is
    more than half of the usual."""
    settings = program.settings
    weights = sum(weight.bytes for weight in program.weights) if settings.weights_on_chip else 0
    trained = sum(weight.bytes for weight in program.weights if weight.name in program.state)
    held = weights + (trained if settings.accumulators_on_chip else 0)
    least = 1
    while least * machine.processor.memory < held and 2 * least <= machine.ipus:
        least *= 2
    if 2 * least <= _MOST_IPUS:
        least, most = 1, _MOST_IPUS
    else:
        most = _MORE_IPUS * least
    return [
        n
        for n in (1 << power for power in range(machine.ipus.bit_length()))
        if least <= n <= min(most, machine.ipus)
    ]


def _halved(replicas: int) -> list[int]:
    return [replicas >> times for times in range(replicas.bit_length())]


def _accumulation(program: Program, batch: int, rows: int) -> int:
    """How many micro-batches of all replicas, of so many rows, make the batch; 0: none do."""
    accumulation = max(1, round(batch / rows)) if program.settings.training else 1
    return 0 if batch and abs(accumulation * rows - batch) > _OFF * batch else accumulation


def _placed(
    program: Program, choices: list[Cuts | None], changes: Mapping[str, Any]
) -> Iterator[tuple[Program, Cuts | None]]:
    for cuts in choices:
        placed = program if cuts is None else place(program, cuts)
        yield placed.with_settings(**changes), cuts


def _recomputations(program: Program, ipus: int) -> tuple[str, ...]:
    if not program.settings.training:
        return ("NoRecompute",)
    if ipus > 1:
        return ("NoRecompute", "Pipeline")
    return ("NoRecompute", "NormOnly", "Standard")
