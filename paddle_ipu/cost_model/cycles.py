"""Cycles of a step: stages, the pipeline's fill, steady state and drain, the weight update.

With F + 1 forward stages training has P = 2 F + 1 (backward of stage k is stage 2 F - k), and one
weight update of A micro-batches takes A + P - 1 pipeline cycles. In each, an IPU runs its active
stages one after the other; the cycle is as long as its slowest IPU and the copies between IPUs
that follow. The update comes after the drain: gradients summed over replicas
(:mod:`paddle_ipu.cost_model.collectives`), optimizer state to and from streaming memory, and the
rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from paddle_ipu.cost_model.collectives import SumCycles, step_cycles, sum_cycles
from paddle_ipu.cost_model.constants import NORMS, OTHER_RULE, RULE_CYCLES
from paddle_ipu.cost_model.gathered_gradients import gathered_gradients
from paddle_ipu.cost_model.links import copy_cycles
from paddle_ipu.cost_model.liveness import StageLiveness, stage_operators
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.part_costs import NOTHING, Cost
from paddle_ipu.cost_model.program import Operator, Program, Tensor
from paddle_ipu.cost_model.stage_copies import stage_copies
from paddle_ipu.dialect.node_origin import NodeOrigin


@dataclass(slots=True)
class StageCycles:
    """One pipeline stage's part of a micro-batch, in cycles of its IPU."""

    stage: int
    ipu: int
    forward: Cost = NOTHING
    backward: Cost = NOTHING
    recompute: Cost = NOTHING
    stream: float = 0.0

    @property
    def cycles(self) -> float:
        """Both directions."""
        return self.forward.cycles + self.backward.cycles + self.recompute.cycles + self.stream


@dataclass(slots=True)
class OperatorCycles:
    """What operators of one type, line of the user's script and layer take, a micro-batch."""

    op_type: str
    origin: NodeOrigin
    ipu: int
    count: int
    forward: float
    backward: float
    flops: float
    bytes: float
    priced: bool


@dataclass(slots=True)
class CycleReport:
    """Cycles of a run and what follows from them.

    Attributes:
        update: cycles of the weight update: the replicas' sums by their bytes and by their steps,
            state from and to memory, the rule.
        steady: cycles of a pipeline cycle when all stages are active.
        host: seconds of a run beside the device's: what the host needs for the call.
        seconds: of a run.
        per_update: cycles from one weight update to the next, or of a micro-batch in inference.
        throughput: rows a second, all replicas together.
        utilisation: share of the peak of the AMP units that matrix products use, computing again
            left out.
        bubble: share of the IPUs' time, outside of weight updates, in which they wait for others.
        critical: the stage of the IPU that the others wait for.
        flops: of a micro-batch.
        latency: seconds from a micro-batch's way in to its results' way out, the host's call with
            them, in inference; 0 in training.
        unpriced: operators without a row: type -> how many.
    """

    stages: list[StageCycles]
    operators: list[OperatorCycles]
    copies: float
    update: dict[str, float]
    steady: float
    per_update: float
    per_run: float
    host: float
    seconds: float
    throughput: float
    utilisation: float
    bubble: float
    critical: int
    flops: float
    latency: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    unpriced: dict[str, int] = field(default_factory=dict)


def predict_cycles(
    program: Program, machine: Machine, pricing: Pricing, lives: Mapping[int, StageLiveness]
) -> CycleReport:
    """The cycles of a program; `lives` are its stages' (:func:`memory.livenesses`)."""
    settings, processor = program.settings, machine.processor
    stages, operators, unpriced = _stages(program, machine, pricing, lives)
    copied = _copied_bytes(program)
    copies = copy_cycles(copied, processor)
    if copied:
        copies += 2.0 * processor.global_sync_cycles
    micro_batches = settings.accumulation if settings.training else 1
    pipelined = settings.pipelined and len(stages) > 1
    if pipelined:
        # Inference and training without accumulation fill the pipeline once a run.
        once = settings.training and settings.accumulation > 1
        flowing = micro_batches_in_flow(program)
        fill, steady, drain, main = _pipeline(stages, flowing, settings.training, copies)
        flow = fill + steady * main + drain
        per_update = flow if once else flow / settings.batches_per_step
        phases = {"fill": fill, "steady": steady * main, "drain": drain}
        if not once:
            phases = {name: value / settings.batches_per_step for name, value in phases.items()}
    else:
        steady = sum(stage.cycles for stage in stages) + copies * max(0, len(stages) - 1)
        per_update = steady * micro_batches
        phases = {"steady": per_update}
    update = _update(program, machine, pricing) if settings.training else {}
    busy = sum(stage.cycles for stage in stages) * micro_batches
    ipus = max(1, settings.ipus // max(1, settings.replicas))
    bubble = max(0.0, 1.0 - busy / (ipus * per_update)) if per_update else 0.0
    per_update += sum(update.values())
    phases["update"] = sum(update.values())
    per_run = per_update * settings.batches_per_step
    host = pricing.constants.run_seconds
    seconds = host + per_run / processor.clock
    # A micro-batch goes on with the others, stage by stage.
    through = steady * len(stages) if pipelined else per_update
    latency = 0.0 if settings.training else host + through / processor.clock
    flops = sum(stage.forward.flops + stage.backward.flops for stage in stages)
    peak = processor.half_flops / processor.clock * ipus
    # All IPUs wait for the streams of each.
    time = {s.ipu: 0.0 for s in stages}
    for stage in stages:
        time[stage.ipu] += stage.cycles - stage.stream
    slowest = max(time, key=lambda ipu: time[ipu], default=0)
    critical = max(
        (s for s in stages if s.ipu == slowest), key=lambda s: s.cycles, default=StageCycles(0, 0)
    )
    return CycleReport(
        stages=stages,
        operators=operators,
        copies=copies,
        update=update,
        steady=steady,
        per_update=per_update,
        per_run=per_run,
        host=host,
        seconds=seconds,
        throughput=program.samples / seconds if seconds else 0.0,
        utilisation=flops * micro_batches / (peak * per_update) if per_update else 0.0,
        bubble=bubble,
        critical=critical.stage,
        flops=flops,
        latency=latency,
        phases=phases,
        unpriced=unpriced,
    )


def _stages(
    program: Program, machine: Machine, pricing: Pricing, lives: Mapping[int, StageLiveness]
) -> tuple[list[StageCycles], list[OperatorCycles], dict[str, int]]:
    stages: dict[int, StageCycles] = {}
    rows: dict[tuple[str, NodeOrigin, int], OperatorCycles] = {}
    unpriced: dict[str, int] = {}
    for time in operator_times(program, pricing, lives):
        operator = time.operator
        total = stages.setdefault(time.stage, StageCycles(time.stage, operator.ipu))
        total.forward = total.forward + time.forward
        total.backward = total.backward + time.backward
        total.recompute = total.recompute + time.recompute
        if not time.priced:
            unpriced[operator.op_type] = unpriced.get(operator.op_type, 0) + 1
        key = (operator.op_type, operator.origin, operator.ipu)
        row = rows.get(key)
        if row is None:
            row = rows[key] = OperatorCycles(*key, 0, 0.0, 0.0, 0.0, 0.0, time.priced)
        row.count += 1
        row.forward += time.forward.cycles
        row.backward += time.backward.cycles + time.recompute.cycles
        row.flops += time.forward.flops + time.backward.flops
        row.bytes += time.forward.bytes + time.backward.bytes
    for stage, operators in stage_operators(program).items():
        if operators:
            stages[stage].stream = _stream(program, machine, operators)
    ordered = sorted(rows.values(), key=lambda r: -(r.forward + r.backward))
    return list(stages.values()), ordered, unpriced


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator's part of a micro-batch; `backward` adds up gradients, `recompute` is apart."""

    operator: Operator
    stage: int
    forward: Cost
    backward: Cost
    recompute: Cost
    priced: bool


def operator_times(
    program: Program, pricing: Pricing, lives: Mapping[int, StageLiveness]
) -> Iterator[OperatorTime]:
    """What each operator takes, stage by stage in program order."""
    again = {op.name for live in lives.values() for op in live.again}
    gathered = gathered_gradients(program, pricing) if program.settings.training else {}
    for stage, operators in stage_operators(program).items():
        for operator in operators:
            cost = pricing.cost_of(operator)
            backward = cost.backward if program.settings.training else NOTHING
            backward = backward + gathered.get(operator.name, NOTHING)
            yield OperatorTime(
                operator,
                stage,
                cost.forward,
                backward + _accumulate(program, pricing, operator),
                cost.forward if operator.name in again else NOTHING,
                cost.priced,
            )


def _accumulate(program: Program, pricing: Pricing, operator: Operator) -> Cost:
    """Adds the gradients of an operator's weights to their accumulators."""
    if not (program.settings.training and operator.gradient and program.settings.accumulation > 1):
        return NOTHING
    cost = NOTHING
    for tensor in operator.read:
        if tensor.name in program.state:
            cost = cost + pricing.map(tensor.elements, tensor.item, 2.0)
    return cost


def _stream(program: Program, machine: Machine, operators: list[Operator]) -> float:
    """Cycles in which a stage waits for its inputs from the host and sends its anchors."""
    settings = program.settings
    per_replica = max(1, settings.ipus // max(1, settings.replicas))
    sharing = max(
        1, min(settings.replicas, machine.board_ipus // min(per_replica, machine.board_ipus))
    )
    tensors = {t.name: t for op in operators for t in op.read if t.role == "input"}
    tensors |= {t.name: t for op in operators for t in op.outputs if t.name in program.anchors}
    size = sum(t.bytes for t in tensors.values())
    # Without tiles of their own for it, a transfer stops the IPU.
    overlapped = 0.0 if settings.io_tiles else 1.0
    return overlapped * size * sharing / machine.host_bandwidth * machine.processor.clock


def _copied_bytes(program: Program) -> dict[tuple[int, int], float]:
    """Bytes of a micro-batch's activations and gradients, by the IPUs that send and receive."""
    settings = program.settings
    ipus = {op.stage if settings.pipelined else op.ipu: op.ipu for op in program.operators}
    sent: dict[tuple[int, int], float] = {}
    for copy in stage_copies(program):
        source, target = ipus[copy.source], ipus[copy.target]
        for end in ((source, target), (target, source))[: 1 + copy.returns]:
            sent[end] = sent.get(end, 0.0) + copy.bytes
    return sent


@dataclass(frozen=True, slots=True)
class PipelinePart:
    """What an IPU does for a micro-batch in one of its pipeline stages.

    Attributes:
        number: pipeline cycles after the micro-batch's first in which it does this.
        kind: ``forward``, with what it waits for the host, or ``backward``, with what is computed
            again.
        stream: of its cycles, those in which it waits for the host, and the other IPUs with it.
    """

    number: int
    ipu: int
    stage: int
    kind: str
    cycles: float
    stream: float = 0.0


def pipeline_parts(stages: list[StageCycles], training: bool) -> list[PipelinePart]:
    """The parts of a micro-batch's way through the pipeline; an IPU runs its own in this order."""
    last = len(stages) - 1
    parts = []
    for number, stage in enumerate(stages):
        forward = stage.forward.cycles + stage.stream
        parts.append(PipelinePart(number, stage.ipu, stage.stage, "forward", forward, stage.stream))
        if training:
            backward = stage.backward.cycles + stage.recompute.cycles
            at = 2 * last - number
            parts.append(PipelinePart(at, stage.ipu, stage.stage, "backward", backward))
    return parts


def waited_cycles(active: Sequence[PipelinePart], ipu: int) -> float:
    """Cycles of a pipeline cycle in which an IPU waits for the streams of the others.

    Paddle's devices have PopART's default sync pattern, ``Full``: an exchange between the host and
    one IPU is one of all. Streams come before what the stages compute.

    Args:
        active: the parts of all IPUs in this pipeline cycle.
    """
    return sum(part.stream for part in active if part.ipu != ipu)


def micro_batches_in_flow(program: Program) -> int:
    """Micro-batches that pass a pipeline between its fill and its drain."""
    settings = program.settings
    if not settings.training:
        return settings.batches_per_step
    # Training without accumulation fills the pipeline once a run.
    return settings.accumulation * (1 if settings.accumulation > 1 else settings.batches_per_step)


def _pipeline(
    stages: list[StageCycles], micro_batches: int, training: bool, copies: float
) -> tuple[float, float, float, int]:
    """Cycles of fill, of one steady cycle and of drain, and how many cycles are steady."""
    parts = pipeline_parts(stages, training)
    total = 1 + max(part.number for part in parts)

    def cycle(at: int) -> float:
        active = [part for part in parts if 0 <= at - part.number < micro_batches]
        time = {part.ipu: waited_cycles(active, part.ipu) for part in active}
        for part in active:
            time[part.ipu] += part.cycles
        return max(time.values(), default=0.0) + copies

    ramp = min(total - 1, micro_batches)
    fill = sum(cycle(at) for at in range(ramp))
    main = max(0, micro_batches - (total - 1))
    steady = cycle(total - 1) if main else cycle(ramp)
    end = micro_batches + total - 1
    drain = sum(cycle(at) for at in range(max(ramp, micro_batches), end))
    if not main:
        drain = sum(cycle(at) for at in range(ramp, end))
    return fill, steady, drain, main


def _update(program: Program, machine: Machine, pricing: Pricing) -> dict[str, float]:
    """Cycles of a weight update: of the IPU that needs longest for each part."""
    settings = program.settings
    trained: dict[int, dict[str, Tensor]] = {}
    for operator in program.operators:
        for tensor in operator.read:
            if tensor.name in program.state:
                trained.setdefault(operator.ipu, {})[tensor.name] = tensor
    weights = [list(group.values()) for group in trained.values()]
    sums = max(
        (_sums(program, group, machine, pricing) for group in weights),
        key=lambda found: found.cycles,
        default=SumCycles(),
    )
    streaming = 0.0
    if not settings.state_on_chip:
        states = max((sum(program.state[t.name] for t in g) for g in weights), default=0)
        split = settings.replicas if settings.state_sharded else 1
        rate = machine.streaming_bandwidth / min(machine.board_ipus, settings.ipus)
        streaming = 2.0 * states / split / rate * machine.processor.clock
    cycles = RULE_CYCLES.get(program.rule, OTHER_RULE) * pricing.constants.update_cycles
    rule = 0.0
    for group in weights:
        # A replica updates the part whose state it has.
        parts = settings.replicas if settings.state_sharded else 1
        total = sum((pricing.map(-(-t.elements // parts), 4, cycles) for t in group), NOTHING)
        rule = max(rule, total.cycles)
    return {
        "collectives": sums.bytes,
        "steps of collectives": sums.latency,
        "streaming memory": streaming,
        "rule": rule,
    }


def _sums(
    program: Program, weights: Sequence[Tensor], machine: Machine, pricing: Pricing
) -> SumCycles:
    """What an IPU sums with others for the update of its weights: gradients and norms."""
    settings, constants = program.settings, pricing.constants
    replica_ipus = max(1, settings.ipus // settings.replicas)
    whole: list[tuple[str, int]] = []
    scattered: list[tuple[str, int]] = []
    for tensor in weights:
        if settings.state_sharded and tensor.elements >= settings.state_min_elements:
            scattered.append((tensor.dtype, tensor.bytes))
            # A replica has a part of the weight, of which it can compute a part of the norms.
            whole += [("float32", 4)] * NORMS.get(program.rule, 0)
        else:
            whole.append((tensor.dtype, tensor.bytes))
    across = 0.0
    if program.norm_clips:
        # The IPUs of a replica add up their parts of the norm, and each gets it back.
        hops = replica_ipus // 2 * constants.hop_seconds * machine.processor.clock
        across = 2.0 * (step_cycles(machine.processor) + hops) * (replica_ipus > 1)
        whole += [("float32", 4)] * (program.norm_clips if scattered else 0)
    sizes = [
        *_merged(whole, settings.merged_sums),
        *_merged(scattered, settings.merged_scatters),
    ]
    found = sum_cycles(sizes, settings.replicas, replica_ipus, machine, constants)
    return found + SumCycles(latency=across * program.norm_clips)


def _merged(sums: Sequence[tuple[str, int]], merged: bool) -> list[int]:
    """Bytes of each sum; of each element type where sums of one are merged."""
    if not merged:
        return [size for _, size in sums]
    total: dict[str, int] = {}
    for dtype, size in sums:
        total[dtype] = total.get(dtype, 0) + size
    return list(total.values())
