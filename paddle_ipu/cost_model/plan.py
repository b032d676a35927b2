"""What if: strategies for a program and a machine, the fastest that fits with room first.

Rates that are nearly the same are a tie, which the memory to spare decides.

Tried are the IPUs of a replica (and as many replicas as fill the machine), the micro-batch, the
accumulation that makes the global batch of both, recomputation, where optimizer state lives, and
less memory for matrix products and convolutions. Where no replicas that fill the machine make the
batch, fewer are tried.
Placements are :mod:`paddle_ipu.cost_model.placement`'s, and the program's own where it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from paddle_ipu.cost_model.advice import LOW_PROPORTION, with_proportion
from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.cuttings import Cuttings
from paddle_ipu.cost_model.cycles import predict_cycles
from paddle_ipu.cost_model.least_memory import least_over
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory import MemoryReport, predict_memory
from paddle_ipu.cost_model.placement import Cuts, place
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program, Settings
from paddle_ipu.cost_model.scaling import with_rows

_T = TypeVar("_T")
_ROWS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 256)
_PROPORTIONS = (0.4, 0.2, LOW_PROPORTION)
_MOST_IPUS, _MORE_IPUS = 16, 8
"""IPUs of a replica at most; where weights take many, times the IPUs that hold them."""
_OFF = 0.03
"""By what share the global batch may differ from the wanted one."""
TIE = 0.01
"""Rates that differ by less, over the higher one, are a tie."""
SURE = 0.9
"""Share of the fullest tile below which it does not matter how much of it is free: it fits, too,
where ``tile_imbalance`` is at the end of what is believed of it."""
MOST = 400
"""Candidates that are tried at most."""
_PROMISING = 12
"""Placements of which the closest is chosen where nothing fits, by the least that they lack."""
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
    cuttings: Cuttings | None = None,
) -> Plan:
    """Tries strategies for a program on all IPUs of a machine.

    Args:
        batch: rows of a weight update; the program's own where 0. In inference rows at once of
            all replicas; as many as are fastest where 0.
        most: how many candidates are tried.
        fewer: replicas need not fill the machine: they are halved until the batch can be made.
            It is so, too, where otherwise nothing makes the batch.
        cuttings: the program's, kept from a plan for a machine of the same kind of IPU.
    """
    if not batch and program.settings.training:
        batch = program.samples // program.settings.batches_per_step
    cuttings = cuttings or Cuttings(program, machine.processor)
    search = _Search(machine, cuttings, most)
    result = search.run(_placements(cuttings, machine, batch, fewer, search.hopeless))
    if result.candidates or result.too_large or fewer:
        return result
    return plan(program, machine, batch=batch, most=most, fewer=True, cuttings=cuttings)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A placement, of which variants are tried."""

    rows: int
    cuts: Cuts | None
    settings: Settings

    def placed(self, cuttings: Cuttings) -> Program:
        """The program with it."""
        program = cuttings.with_rows(self.rows)
        placed = program if self.cuts is None else place(program, self.cuts)
        pipelined = placed.settings.pipelined
        return replace(placed, settings=replace(self.settings, pipelined=pipelined))

    @property
    def held(self) -> tuple[object, ...]:
        """What decides about the memory that no variant makes less."""
        settings = self.settings
        sharded = settings.weights_sharded or settings.accumulators_sharded
        return (
            self.cuts,
            settings.recomputation,
            settings.accumulation > 1,
            settings.replicas if sharded else 0,
        )


class _Hopeless:
    """Placements with which micro-batches of so many rows do not fit: larger ones neither."""

    def __init__(self) -> None:
        self._rows: dict[tuple[object, ...], int] = {}

    def add(self, choice: _Choice) -> None:
        """Notes one that does not fit."""
        self._rows[choice.held] = min(choice.rows, self._rows.get(choice.held, choice.rows))

    def has(self, choice: _Choice) -> bool:
        """Whether as many rows, or fewer, did not fit."""
        least = self._rows.get(choice.held)
        return least is not None and choice.rows >= least


@dataclass(slots=True)
class _Search:
    """Tries placements on a machine.

    Attributes:
        most: candidates that are tried at most.
        hopeless: placements that are left out; it grows meanwhile.
        skipped: those of which the least that they lack is known, with that, and those predicted.
    """

    machine: Machine
    cuttings: Cuttings
    most: int
    hopeless: _Hopeless = field(default_factory=_Hopeless)
    fitting: list[Candidate] = field(default_factory=list)
    skipped: list[tuple[int, _Choice]] = field(default_factory=list)
    closest: tuple[Program, Cuts | None, MemoryReport] | None = None
    too_large: int = 0

    @property
    def is_over(self) -> bool:
        """Whether as many were tried as may be."""
        return self.too_large + len(self.fitting) >= self.most

    def run(self, placements: Iterator[Iterator[_Choice]]) -> Plan:
        """Tries them all, or as many as may be."""
        for choices in placements:
            for choice in choices:
                if self.is_over or self._fits_first(choice):
                    break
            if self.is_over:
                break
        closest = None if self.fitting else self._closest()
        return Plan(tuple(preferred(self.fitting, lambda one: one)), self.too_large, closest)

    def _fits_first(self, choice: _Choice) -> bool:
        """Tries a placement; whether its fastest variant fits with room."""
        lacking = self.cuttings.lacking.get((choice.rows, *choice.held))
        if lacking is None:
            placed = choice.placed(self.cuttings)
            lacking = least_over(placed, self.machine, self.cuttings.pricing.constants)
            self.cuttings.lacking[choice.rows, *choice.held] = lacking
        if lacking:
            self.too_large += 1
            self.skipped.append((lacking, choice))
            self.hopeless.add(choice)
            return False
        return self._predicted(choice)

    def _predicted(self, choice: _Choice) -> bool:
        """Predicts the variants of a placement; whether the fastest fits with room."""
        machine, pricing = self.machine, self.cuttings.pricing
        placed = choice.placed(self.cuttings)
        lives = self.cuttings.livenesses(placed, choice.cuts)
        before = len(self.fitting)
        for number, candidate in enumerate(_variants(placed)):
            if self.is_over:
                return False
            memory = predict_memory(candidate, machine, pricing, lives, detailed=False)
            if memory.fits:
                cycles = predict_cycles(candidate, machine, pricing, lives)
                prediction = Prediction(candidate, machine, memory, cycles)
                self.fitting.append(Candidate(prediction, choice.cuts))
                if not memory.has_room:
                    continue
                # The others of this kind are slower.
                return number == 0
            self.too_large += 1
            self._note(candidate, choice.cuts, memory)
            if lacking := _lacking(memory):
                self.cuttings.lacking[choice.rows, *choice.held] = lacking
                break
        if len(self.fitting) == before:
            self.hopeless.add(choice)
        return False

    def _note(self, program: Program, cuts: Cuts | None, memory: MemoryReport) -> None:
        if self.closest is None or memory.worst.over < self.closest[2].worst.over:
            self.closest = (program, cuts, memory)

    def _closest(self) -> Candidate | None:
        """What lacks least of what was predicted and of the most promising that were skipped."""
        machine, pricing = self.machine, self.cuttings.pricing

        def promise(pair: tuple[int, _Choice]) -> tuple[int, bool, int]:
            lacking, choice = pair
            return choice.rows, choice.settings.recomputation == "NoRecompute", lacking

        for lacking, choice in sorted(self.skipped, key=promise)[:_PROMISING]:
            if self.closest is not None and lacking >= self.closest[2].worst.over:
                continue
            # The last variant takes least.
            *_, smallest = _variants(choice.placed(self.cuttings))
            lives = self.cuttings.livenesses(smallest, choice.cuts)
            memory = predict_memory(smallest, machine, pricing, lives, detailed=False)
            self._note(smallest, choice.cuts, memory)
            known = (choice.rows, *choice.held)
            self.cuttings.lacking[known] = max(lacking, _lacking(memory))
        if self.closest is None:
            return None
        program, cuts, _ = self.closest
        lives = self.cuttings.livenesses(program, cuts)
        return Candidate(predict(program, machine, pricing, lives), cuts)


def _lacking(memory: MemoryReport) -> int:
    """Bytes that an IPU lacks even without the parts that variants make smaller."""
    most = 0
    for ipu in memory.ipus:
        shrinking = ipu.categories["optimizer state"] + ipu.categories["temporaries"]
        tiles = ipu.capacity // ipu.tile_capacity
        held = ipu.per_tile - CONSTANTS.tile_imbalance * shrinking / tiles
        most = max(most, int((held - ipu.tile_capacity) * tiles))
    return most


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
    cuttings: Cuttings,
    machine: Machine,
    batch: int,
    fewer: bool,
    hopeless: _Hopeless,
) -> Iterator[Iterator[_Choice]]:
    """Placements of one size each: the fastest first, then those with room on the first IPU.

    Args:
        hopeless: what is left out; it grows meanwhile.
        fewer: replicas are halved until the batch can be made, and leave IPUs unused.
    """
    program = cuttings.program
    settings = program.settings
    own = max(1, settings.ipus // max(1, settings.replicas))
    # The program's own number of IPUs and rows first: the others are estimates.
    sizes = _sizes(program, machine)
    sizes.sort(key=lambda n: abs(n.bit_length() - own.bit_length()))
    rows = sorted({*_ROWS, program.rows}, key=lambda r: abs(r - program.rows))
    if program.rows_are_fixed:
        rows = [program.rows]
    # What cannot be cut into so many is tried whole, which says what is lacking.
    pipelines = _pipelines(cuttings, sizes) or _pipelines(cuttings, [1])
    for micro in rows:
        resized = cuttings.with_rows(micro)
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
            of_size = replace(
                settings,
                ipus=ipus * replicas,
                replicas=replicas,
                accumulation=accumulation,
                batches_per_step=batches if settings.training else max(batches, stages),
                recomputation=recompute,
                state_sharded=replicas > 1,
            )
            yield (
                choice for each in cuts if not hopeless.has(choice := _Choice(micro, each, of_size))
            )


def _pipelines(
    cuttings: Cuttings, sizes: Sequence[int]
) -> list[tuple[int, list[Cuts | None], str]]:
    """Of each number of IPUs that a program can be cut for: (IPUs, cuts, recomputation)."""
    program = cuttings.program
    settings = program.settings
    own = max(1, settings.ipus // max(1, settings.replicas))
    pipelines: list[tuple[int, list[Cuts | None], str]] = []
    for ipus in sizes:
        for recompute in _recomputations(program, ipus):
            cuts = cuttings.cuts(ipus, recompute != "NoRecompute")
            if cuts:
                pipelines.append((ipus, [*cuts], recompute))
            if ipus == own and settings.pipelined:
                pipelines.append((ipus, [None], recompute))
    return pipelines


def _sizes(program: Program, machine: Machine) -> list[int]:
    """IPUs of a replica, powers of two, from the first on that holds the weights, or all where
    none does; the largest are the usual, or a few times those that hold what gradients are added up
    in, too."""
    settings = program.settings
    weights = sum(weight.bytes for weight in program.weights) if settings.weights_on_chip else 0
    trained = sum(weight.bytes for weight in program.weights if weight.name in program.state)
    sizes = [1 << power for power in range(machine.ipus.bit_length())]

    def holding(size: int) -> int:
        return next((n for n in sizes if n * machine.processor.memory >= size), sizes[-1])

    held = weights + (trained if settings.accumulators_on_chip else 0)
    most = max(_MOST_IPUS, _MORE_IPUS * holding(held))
    least = holding(weights) if weights <= sizes[-1] * machine.processor.memory else 1
    return [n for n in sizes if least <= n <= most]


def _halved(replicas: int) -> list[int]:
    return [replicas >> times for times in range(replicas.bit_length())]


def _accumulation(program: Program, batch: int, rows: int) -> int:
    """How many micro-batches of all replicas, of so many rows, make the batch; 0: none do."""
    accumulation = max(1, round(batch / rows)) if program.settings.training else 1
    return 0 if batch and abs(accumulation * rows - batch) > _OFF * batch else accumulation


def _recomputations(program: Program, ipus: int) -> tuple[str, ...]:
    if not program.settings.training:
        return ("NoRecompute",)
    if ipus > 1:
        return ("NoRecompute", "Pipeline")
    return ("NoRecompute", "NormOnly", "Standard")
