"""When each IPU works on which micro-batch: fill, steady state, drain and the weight update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from paddle_ipu.cost_model.cycles import (
    CycleReport,
    PipelinePart,
    StageCycles,
    micro_batches_in_flow,
    pipeline_parts,
    waited_cycles,
)
from paddle_ipu.cost_model.prediction import Prediction
from paddle_ipu.cost_model.program import Program

STEADY_SHOWN = 6
"""Pipeline cycles of the steady state that stand by themselves; the others are one block."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one IPU does for one micro-batch; `start` and `cycles` in cycles of its clock."""

    ipu: int
    stage: int
    kind: str
    micro_batch: int
    start: float
    cycles: float


@dataclass(frozen=True, slots=True)
class Block:
    """One pipeline cycle; or, without works, `repeats` equal ones in a row.

    Attributes:
        phase: ``fill``, ``steady`` or ``drain``.
        at: the number of the first pipeline cycle of the block.
        cycles: of the whole block.
        copies: of them at the end of each pipeline cycle, for copies between IPUs.
    """

    phase: str
    at: int
    repeats: int
    start: float
    cycles: float
    copies: float
    works: tuple[Work, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """One weight update; of inference, and of training without accumulation, one run.

    Attributes:
        update: parts of the weight update that follow: name, start, cycles.
        cycles: from the first micro-batch to the end of the weight update.
    """

    pipelined: bool
    micro_batches: int
    blocks: tuple[Block, ...]
    update: tuple[tuple[str, float, float], ...]
    cycles: float

    def as_json(self) -> dict[str, Any]:
        """``blocks[].works`` are ``[ipu, stage, kind, micro-batch, start, cycles]``."""
        return {
            "pipelined": self.pipelined,
            "micro_batches": self.micro_batches,
            "cycles": self.cycles,
            "blocks": [
                {
                    "phase": block.phase,
                    "at": block.at,
                    "repeats": block.repeats,
                    "start": block.start,
                    "cycles": block.cycles,
                    "copies": block.copies,
                    "works": [
                        [w.ipu, w.stage, w.kind, w.micro_batch, w.start, w.cycles]
                        for w in block.works
                    ],
                }
                for block in self.blocks
            ],
            "update": [list(part) for part in self.update],
        }


@dataclass
class _Writer:
    """Appends blocks one after another."""

    copies: float
    time: float = 0.0
    blocks: list[Block] = field(default_factory=list)

    def add(self, phase: str, at: int, works: list[Work], cycles: float) -> None:
        self.blocks.append(Block(phase, at, 1, self.time, cycles, self.copies, tuple(works)))
        self.time += cycles

    def repeat(self, at: int, repeats: int, cycles: float) -> None:
        if repeats > 0:
            total = repeats * cycles
            self.blocks.append(Block("steady", at, repeats, self.time, total, self.copies))
            self.time += total


def timeline(prediction: Prediction) -> Timeline:
    """The timeline of a prediction; its phases are as long as the prediction says."""
    program, cycles = prediction.program, prediction.cycles
    settings = program.settings
    pipelined = settings.pipelined and len(cycles.stages) > 1
    updates = 1
    if pipelined:
        flowing = micro_batches_in_flow(program)
        blocks, end = _pipelined(program, cycles, flowing)
        if settings.training and settings.accumulation == 1:
            updates = settings.batches_per_step
    else:
        flowing = settings.accumulation if settings.training else 1
        blocks, end = _one_after_another(program, cycles, flowing)
    update = []
    for name, length in cycles.update.items():
        if length:
            update.append((name, end, length * updates))
            end += length * updates
    return Timeline(pipelined, flowing, tuple(blocks), tuple(update), end)


def _pipelined(
    program: Program, cycles: CycleReport, micro_batches: int
) -> tuple[list[Block], float]:
    parts = pipeline_parts(cycles.stages, program.settings.training)
    total = 1 + max(part.number for part in parts)
    ramp = min(total - 1, micro_batches)
    writer = _Writer(cycles.copies)

    def run(at: int, phase: str) -> None:
        works = list(_works(parts, at, micro_batches, writer.time))
        busy = max((w.start + w.cycles for w in works), default=writer.time) - writer.time
        writer.add(phase, at, works, busy + cycles.copies)

    for at in range(ramp):
        run(at, "fill")
    steady_end = max(ramp, micro_batches)
    shown = min(ramp + STEADY_SHOWN, steady_end)
    for at in range(ramp, shown):
        run(at, "steady")
    writer.repeat(shown, steady_end - shown, cycles.steady)
    for at in range(steady_end, micro_batches + total - 1):
        run(at, "drain")
    return writer.blocks, writer.time


def _works(parts: list[PipelinePart], at: int, micro_batches: int, start: float) -> Iterator[Work]:
    """What is done in pipeline cycle `at`; an IPU's stages run one after another."""
    active = [part for part in parts if 0 <= at - part.number < micro_batches]
    ends = {part.ipu: start + waited_cycles(active, part.ipu) for part in active}
    for part in active:
        micro_batch = at - part.number
        if part.cycles:
            begin = ends[part.ipu]
            yield Work(part.ipu, part.stage, part.kind, micro_batch, begin, part.cycles)
            ends[part.ipu] = begin + part.cycles


def _one_after_another(
    program: Program, cycles: CycleReport, micro_batches: int
) -> tuple[list[Block], float]:
    """Without a pipeline a micro-batch goes forward and back before the next one begins."""
    stages = cycles.stages
    writer = _Writer(cycles.copies)
    shown = min(micro_batches, STEADY_SHOWN)
    for micro_batch in range(shown):
        works = list(_there_and_back(program, stages, micro_batch, writer.time, cycles.copies))
        writer.add("steady", micro_batch, works, cycles.steady)
    writer.repeat(shown, micro_batches - shown, cycles.steady)
    return writer.blocks, writer.time


def _there_and_back(
    program: Program, stages: list[StageCycles], micro_batch: int, time: float, copies: float
) -> Iterator[Work]:
    parts = pipeline_parts(stages, program.settings.training)
    forward = [part for part in parts if part.kind == "forward"]
    backward = [part for part in reversed(parts) if part.kind == "backward"]
    for part in (*forward, *backward):
        if part.cycles:
            yield Work(part.ipu, part.stage, part.kind, micro_batch, time, part.cycles)
        time += part.cycles
        # A copy follows each stage but the last one; those of the way back are counted with them.
        if part.kind == "forward" and part is not forward[-1]:
            time += copies
