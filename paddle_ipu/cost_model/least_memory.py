"""What an IPU of a placed program holds at least, known without its schedule.

A schedule takes most of the time of a plan; a candidate that lacks more than another one does, for
its weights and what its stages hand on alone, needs none.
"""

from __future__ import annotations

from paddle_ipu.cost_model.constants import Constants
from paddle_ipu.cost_model.liveness import Roots
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory import stage_recomputation, stash_depth
from paddle_ipu.cost_model.program import Program, Tensor


def least_over(program: Program, machine: Machine, constants: Constants) -> int:
    """Bytes that the fullest IPU lacks at least, as :attr:`~.memory.IpuMemory.over` counts them.

    Counted are weights, accumulators, and what stages that compute forward again keep of other
    stages' tensors for the micro-batches on their way. No variant of a placement makes them less.
    """
    held = _weights(program)
    for ipu, size in _handed_on(program).items():
        held[ipu] = held.get(ipu, 0) + size
    processor = machine.processor
    per_tile = max(held.values(), default=0) / processor.tiles * constants.tile_imbalance
    return max(0, int(per_tile) - processor.tile_memory) * processor.tiles


def _weights(program: Program) -> dict[int, int]:
    """Bytes of each IPU's weights and of what gradients are added up in."""
    settings = program.settings
    read: dict[tuple[int, str], Tensor] = {}
    for operator in program.operators:
        for tensor in operator.inputs:
            if tensor is not None and tensor.role == "weight":
                read[operator.ipu, tensor.name] = tensor
    added_up = settings.training and settings.accumulation > 1 and settings.accumulators_on_chip
    held: dict[int, int] = {}
    for (ipu, name), tensor in read.items():
        large = tensor.elements >= settings.state_min_elements
        size = 0
        if settings.weights_on_chip:
            size += -(
                -tensor.bytes // (settings.replicas if settings.weights_sharded and large else 1)
            )
        if added_up and name in program.state:
            sharded = settings.accumulators_sharded and large
            size += -(-tensor.bytes // (settings.replicas if sharded else 1))
        held[ipu] = held.get(ipu, 0) + size
    return held


def _handed_on(program: Program) -> dict[int, int]:
    """Bytes of each IPU's stash that its stages read of others, or of the host."""
    settings = program.settings
    again = settings.training and settings.pipelined and stage_recomputation(program) == "Pipeline"
    if not again or not settings.activations_on_chip:
        return {}
    roots = Roots(program.operators)
    made = {t.name: op.stage for op in program.operators for t in op.outputs}
    depths = {stage: stash_depth(program, at) for at, stage in enumerate(program.stages)}
    kept: dict[int, dict[tuple[int, str], int]] = {}
    for operator in program.operators:
        stage = operator.stage
        # The last stage's is no stash: backward follows at once.
        if depths[stage] == 1:
            continue
        for tensor in operator.inputs:
            for root in () if tensor is None else roots.of(tensor):
                if root.role in ("activation", "input") and made.get(root.name) != stage:
                    kept.setdefault(operator.ipu, {})[stage, root.name] = depths[stage] * root.bytes
    return {ipu: sum(sizes.values()) for ipu, sizes in kept.items()}
