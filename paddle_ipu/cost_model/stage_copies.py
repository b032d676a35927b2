"""What stages on different IPUs send one another: activations forward, their gradients backward.

In a pipeline a copy goes from stage to stage, by one in each pipeline cycle: a stage between the
one that makes a tensor and one that reads it receives it and sends it on (PopART:
Pipeline::contiguateIpuCopies). A tensor is copied as it is read, so that of a slice that its stage
took the slice goes on; of several views no more than what they are views of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paddle_ipu.cost_model.liveness import Roots
from paddle_ipu.cost_model.program import Program, Tensor


@dataclass(frozen=True, slots=True)
class StageCopy:
    """One tensor's way from a stage to another one.

    Attributes:
        tensor: whose memory is copied, or a part of it.
        source, target: stages, one behind the other in a pipeline.
        bytes: of a micro-batch.
        returns: backward copies as much of its gradient the other way.
        read: by the target; else the target only sends it on.
    """

    tensor: Tensor
    source: int
    target: int
    bytes: int
    returns: bool
    read: bool


def stage_copies(program: Program) -> list[StageCopy]:
    """The copies of a micro-batch between stages of different IPUs; of IPUs without a pipeline."""
    settings, roots = program.settings, Roots(program.operators)
    stages = program.stages if settings.pipelined else []
    ipus: dict[int, int] = {}
    made: dict[str, int] = {}
    for operator in program.operators:
        stage = operator.stage if settings.pipelined else operator.ipu
        ipus[stage] = operator.ipu
        made.update((tensor.name, stage) for tensor in operator.outputs)
    memory: dict[str, Tensor] = {}
    views: dict[tuple[str, int, int], dict[str, int]] = {}
    readers: dict[str, set[int]] = {}
    returning: set[tuple[str, int, int]] = set()
    for operator in program.operators:
        stage = operator.stage if settings.pipelined else operator.ipu
        for tensor in operator.read:
            source = made.get(tensor.name, stage)
            if tensor.role != "activation" or ipus[source] == operator.ipu:
                continue
            for root in roots.of(tensor):
                memory[root.name] = root
                readers.setdefault(root.name, set()).add(stage)
                back = settings.training and operator.gradient and root.has_gradient
                for hop in _hops(stages, source, stage):
                    key = (root.name, *hop)
                    views.setdefault(key, {})[tensor.name] = tensor.bytes
                    returning |= {key} if back else set()
    return [
        StageCopy(
            memory[name], source, target, min(memory[name].bytes, sum(parts.values())),
            (name, source, target) in returning, target in readers[name],
        )
        for (name, source, target), parts in views.items()
    ]  # fmt: skip


def _hops(stages: Sequence[int], source: int, target: int) -> Iterator[tuple[int, int]]:
    """The copies on the way from a stage to another one.

    Args:
        stages: of the pipeline; none without one.
    """
    if not stages:
        return iter([(source, target)])
    way = stages[stages.index(source) : stages.index(target) + 1]
    return pairwise(way)
