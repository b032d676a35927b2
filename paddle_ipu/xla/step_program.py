"""What one compiled step is made of: the graph, its inputs and weights, loops and anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from paddle_ipu.xla.optimizer import Updater

GRADIENT_PREFIX = "Gradient___"


@dataclass(frozen=True, slots=True)
class Anchor:
    """What is kept of a tensor over a run.

    Attributes:
        tensor: tensor id; ``Gradient___<id>`` for a gradient.
        kind: ``all``, ``final``, ``sum`` or ``everyn``.
        period: N of ``everyn``.
    """

    tensor: str
    kind: str = "all"
    period: int = 1


@dataclass(frozen=True, slots=True)
class StepProgram:
    """What to compile.

    Attributes:
        graph: the PopART graph.
        inputs: input tensor id -> (micro-batch shape, dtype).
        weights: ids of the initialised inputs -> (shape, dtype).
        writes: weight -> the tensor that is its value in the next micro-batch, of those that the
            graph itself writes.
        anchors: what a run returns.
        batches_per_step: turns of the outer loop.
        accumulation_factor: micro-batches before an update.
        mean: gradients are averaged over micro-batches, not summed.
        running_mean: the average is kept running instead of divided at the end.
        loss: id of the loss, in training.
        updater: the optimizer, in training.
        check_floats: find the first operator whose result is not finite.
    """

    graph: ir.Graph
    inputs: Mapping[str, tuple[tuple[int, ...], str]]
    weights: Mapping[str, tuple[tuple[int, ...], str]]
    anchors: Sequence[Anchor]
    writes: Mapping[str, str] = field(default_factory=dict)
    batches_per_step: int = 1
    accumulation_factor: int = 1
    mean: bool = False
    running_mean: bool = False
    loss: str | None = None
    updater: Updater | None = None
    check_floats: bool = False

    @property
    def loop_dims(self) -> tuple[int, ...]:
        """Leading dimensions of fed arrays: (batches, micro-batches), without ones."""
        dims = (self.batches_per_step, self.accumulation_factor)
        return tuple(dim for dim in dims if dim > 1)
