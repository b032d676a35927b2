"""A program on a machine: its memory and its cycles, together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paddle_ipu.cost_model.cycles import CycleReport, predict_cycles
from paddle_ipu.cost_model.liveness import StageLiveness
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory import MemoryReport, livenesses, predict_memory
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.program import Program


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the IPU Model says of a program on a machine; nothing in it was measured."""

    program: Program
    machine: Machine
    memory: MemoryReport
    cycles: CycleReport


def predict(
    program: Program,
    machine: Machine,
    pricing: Pricing | None = None,
    lives: Mapping[int, StageLiveness] | None = None,
) -> Prediction:
    """Memory and cycles of a program.

    Args:
        pricing: of the machine's processor; one that is kept spares pricing equal operators again.
        lives: the stages' liveness, where it is known: places, rows and recomputation decide it.
    """
    pricing = pricing or Pricing(machine.processor)
    lives = livenesses(program) if lives is None else lives
    return Prediction(
        program,
        machine,
        predict_memory(program, machine, pricing, lives),
        predict_cycles(program, machine, pricing, lives),
    )
