"""The Paddle program behind a session of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from paddle_ipu.popart.operand_ranges import OperandRange

if TYPE_CHECKING:
    from paddle_ipu.cost_model.machines import Machine
    from paddle_ipu.cost_model.program import Program
    from paddle_ipu.sessions.weights import SessionWeights
    from paddle_ipu.xla.step.early_load import EarlyLoad


@dataclass(frozen=True, slots=True)
class PaddleProgram:
    """A Paddle program behind a session.

    Its integers are Paddle's: INT64 has 64 bits, and casts to integers are those of C.

    Attributes:
        kernels: first result of an ``ai.paddle_ipu.CpuKernel`` -> what runs it.
        operand_ranges: first result of an operator -> the numbers it takes; others raise.
        progress: called by ``prepareDevice`` with the percentage done, in whole numbers.
        rewritten: called with the name of each pass over the graph that changed it, and the graph.
        while_compiling: called with the session in another thread while XLA compiles.
        early: what is being loaded from the executable cache meanwhile.
        prediction: gives the program with its lines, and the machine, that reports are about;
            None for the model as the session has it, on the machine that its options name.
    """

    kernels: Mapping[str, Any] = field(default_factory=dict)
    operand_ranges: Mapping[str, Sequence[OperandRange]] = field(default_factory=dict)
    progress: Callable[[int], None] | None = None
    rewritten: Callable[[str, ir.Graph], None] | None = None
    while_compiling: Callable[[SessionWeights], None] = lambda session: None
    early: EarlyLoad | None = None
    prediction: Callable[[], tuple[Program, Machine]] | None = None
