"""What ``session.getReport()`` gives: the names of Graphcore's ``pva`` library, predicted numbers.

Only what the prediction knows is there. Every tile of an IPU counts as full as its fullest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from paddle_ipu.cost_model.report.contents import Report as Prediction
from paddle_ipu.popart.names import versionString

_ARCHITECTURES = {"Bow": "ipu21"}


@dataclass(frozen=True, slots=True)
class PoplarVersion:
    """The version of what made the report."""

    string: str


@dataclass(frozen=True, slots=True)
class Target:
    """The machine; memory in bytes, the clock in cycles a second."""

    architecture: str
    numIPUs: int
    tilesPerIpu: int
    numTiles: int
    bytesPerTile: int
    totalMemory: int
    clockFrequency: float
    numReplicas: int


@dataclass(frozen=True, slots=True)
class Graph:
    """The size of the program on all IPUs of a replica."""

    numComputeSets: int


@dataclass(frozen=True, slots=True)
class TotalMemory:
    """Bytes of a tile; a prediction knows no gaps."""

    includingGaps: int
    excludingGaps: int


@dataclass(frozen=True, slots=True)
class TileMemory:
    """The memory of a tile."""

    total: TotalMemory


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of the IPUs of a replica."""

    memory: TileMemory


@dataclass(frozen=True, slots=True)
class Bytes:
    """A size."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """An operator or a stage by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class LivenessProgramStep:
    """An operator of the schedule, and the bytes that are alive then and not always."""

    program: Program
    notAlwaysLiveMemory: Bytes


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor that always lives."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class IpuCycles:
    """Cycles of an IPU."""

    cycles: int


@dataclass(frozen=True, slots=True)
class ExecutionStep:
    """A stage in one direction, for one micro-batch, with the cycles of each IPU."""

    program: Program
    ipus: tuple[IpuCycles, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the session and its cycles."""

    name: str
    cycles: int


_ALWAYS = ("weights", "optimizer state", "accumulators")


@dataclass(frozen=True)
class Compilation:
    """The program as it lies in memory; all IPUs of one replica."""

    _report: Prediction

    @cached_property
    def target(self) -> Target:
        """The machine, and how much of it the program takes."""
        settings = self._report.prediction.program.settings
        processor = self._report.prediction.machine.processor
        tiles = settings.ipus * processor.tiles
        return Target(
            architecture=_ARCHITECTURES.get(processor.name, "ipu2"),
            numIPUs=settings.ipus,
            tilesPerIpu=processor.tiles,
            numTiles=tiles,
            bytesPerTile=processor.tile_memory,
            totalMemory=tiles * processor.tile_memory,
            clockFrequency=processor.clock,
            numReplicas=settings.replicas,
        )

    @cached_property
    def graph(self) -> Graph:
        """Its compute sets, before equal ones share their code."""
        sets = sum(t.forward.sets + t.backward.sets for t in self._report.operators)
        return Graph(round(sets))

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """Every tile, those of IPU 0 first."""
        prediction = self._report.prediction
        tiles: list[Tile] = []
        for ipu in prediction.memory.ipus:
            memory = TileMemory(TotalMemory(ipu.per_tile, ipu.per_tile))
            tiles += [Tile(memory)] * prediction.machine.processor.tiles
        return tuple(tiles)

    @cached_property
    def livenessProgramSteps(self) -> tuple[LivenessProgramStep, ...]:
        """The operators of a pipeline cycle, IPU by IPU."""
        return tuple(
            LivenessProgramStep(
                Program(f"{step.label} ({step.phase})"),
                Bytes(int(step.bytes) - ipu.always),
            )
            for ipu in self._report.prediction.memory.ipus
            for step in ipu.steps
        )

    @cached_property
    def alwaysLiveVariables(self) -> tuple[Variable, ...]:
        """The largest tensors that always live."""
        return tuple(
            Variable(tensor.name, tensor.bytes)
            for ipu in self._report.prediction.memory.ipus
            for tensor in ipu.holdings
            if tensor.category in _ALWAYS
        )


@dataclass(frozen=True)
class Execution:
    """The cycles of a run."""

    _report: Prediction

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """One predicted run."""
        return (Run("predicted", round(self._report.prediction.cycles.per_run)),)

    @cached_property
    def steps(self) -> tuple[ExecutionStep, ...]:
        """The stages of one micro-batch, forward and then back."""
        cycles = self._report.prediction.cycles
        ipus = sorted({stage.ipu for stage in cycles.stages})
        steps = [
            (f"stage {stage.stage} forward", stage.ipu, stage.forward.cycles + stage.stream)
            for stage in cycles.stages
        ]
        if self._report.prediction.program.settings.training:
            steps += [
                (
                    f"stage {stage.stage} backward",
                    stage.ipu,
                    stage.backward.cycles + stage.recompute.cycles,
                )
                for stage in reversed(cycles.stages)
            ]
        return tuple(
            ExecutionStep(
                Program(name),
                tuple(IpuCycles(round(length) if other == ipu else 0) for other in ipus),
            )
            for name, ipu, length in steps
        )


@dataclass(frozen=True)
class Report:
    """A prediction by the names of ``pva.Report``; `prediction` is all of it."""

    prediction: Prediction

    @property
    def poplarVersion(self) -> PoplarVersion:
        """PopART's version that this module stands for."""
        return PoplarVersion(versionString())

    @cached_property
    def compilation(self) -> Compilation:
        """Memory."""
        return Compilation(self.prediction)

    @cached_property
    def execution(self) -> Execution:
        """Time."""
        return Execution(self.prediction)
