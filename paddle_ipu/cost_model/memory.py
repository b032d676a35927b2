"""Memory of each IPU through a step: what always lives, the stash of the pipeline, the peak.

    always      weights + accumulators + optimizer state + constants + stream buffers + code
    stash       bytes kept of a micro-batch x micro-batches between its forward and its backward,
                and what is received from one stage to be sent on to another
    at a step   always + stashes of the IPU's stages + what is alive there + the plan's temporary
    the update  always + stashes + the buffer of optimizer state that is off the chip

Stage s of F + 1 has 2 (F - s) + 1 micro-batches on their way between forward and backward, since
backward of a micro-batch reaches it so many pipeline cycles later; without a pipeline it is one.
What is off the chip needs a buffer of its largest tensor; what is sharded is divided by the
replicas. The buffer of optimizer state is needed only in the weight update, which follows the last
micro-batch (PopART's accumulate outer fragment); without accumulation weights are updated among the
operators of backward, so that it always is. A tile holds its share of everything, the fullest one
`tile_imbalance` times that, and its code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from paddle_ipu.cost_model.liveness import (
    Roots,
    StageLiveness,
    Step,
    stage_liveness,
    stage_operators,
)
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.operator_cost import OperatorCost, Pricing
from paddle_ipu.cost_model.program import Operator, Program, Tensor
from paddle_ipu.cost_model.stage_copies import stage_copies
from paddle_ipu.dialect.node_origin import NodeOrigin, folded

CATEGORIES = (
    "weights", "optimizer state", "accumulators", "constants", "code", "streams", "stash",
    "activations", "temporaries",
)  # fmt: skip
ROOM = 0.05
"""Share of the fullest tile that plans leave free, for what the prediction has too low."""
PASSING = ("stash", "activations", "temporaries")
"""Categories of what does not live through the whole step."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A tensor in an IPU's memory at its peak: bytes with all its copies, and who made it."""

    name: str
    category: str
    bytes: int
    origin: NodeOrigin = NodeOrigin()


@dataclass(slots=True)
class IpuMemory:
    """One IPU's memory. Bytes are those of all its tiles, `per_tile` those of the fullest one.

    Attributes:
        categories: bytes at the peak by category.
        always: bytes that live through the whole step, code among them, the stash not.
        steps: the schedule of one pipeline cycle: bytes alive at each operator, all told; then the
            weight update where it needs memory of its own.
        peak_step: where in `steps` the peak is.
        holdings: the largest tensors at the peak.
        layers: bytes of all tensors at the peak by layer, numbers in its path folded; largest
            first, "" for those of no layer.
        always_layers: those of them that live through the whole step.
        whole_layers: as `layers`, each with its whole path.
        category_layers: of `categories` whose tensors are known at the peak, bytes by layer, as in
            `layers`.
    """

    ipu: int
    capacity: int
    tile_capacity: int
    peak: int
    per_tile: int
    categories: dict[str, int]
    always: int = 0
    steps: list[Step] = field(default_factory=list)
    peak_step: int = 0
    holdings: list[Holding] = field(default_factory=list)
    layers: dict[str, int] = field(default_factory=dict)
    always_layers: dict[str, int] = field(default_factory=dict)
    whole_layers: dict[str, int] = field(default_factory=dict)
    category_layers: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def over(self) -> int:
        """Bytes that the fullest tile lacks, times the tiles; 0 where all fits."""
        return max(0, self.per_tile - self.tile_capacity) * (self.capacity // self.tile_capacity)

    @property
    def fits(self) -> bool:
        """Whether the fullest tile holds it."""
        return self.per_tile <= self.tile_capacity


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Every IPU of one replica, and the streaming memory that a board's replicas use."""

    ipus: tuple[IpuMemory, ...]
    off_chip: int

    @property
    def fits(self) -> bool:
        """Whether every IPU holds its part."""
        return all(ipu.fits for ipu in self.ipus)

    @property
    def has_room(self) -> bool:
        """Whether every IPU holds its part with :data:`ROOM` to spare."""
        return self.worst.per_tile <= (1.0 - ROOM) * self.worst.tile_capacity

    @property
    def worst(self) -> IpuMemory:
        """The IPU with the least room."""
        return max(self.ipus, key=lambda ipu: ipu.per_tile)


def stash_depth(program: Program, number: int) -> int:
    """Micro-batches that the stage at place `number` keeps between forward and backward."""
    if not (program.settings.pipelined and program.settings.training):
        return 1
    return 2 * (len(program.stages) - 1 - number) + 1


def stage_recomputation(program: Program) -> str:
    """The recomputation of the stages: in a pipeline from what they read and from checkpoints."""
    kind = program.settings.recomputation
    if program.settings.pipelined:
        return "Pipeline" if kind in ("Standard", "Pipeline", "RecomputeAll") else kind
    return "NoRecompute" if kind == "Pipeline" else kind


def livenesses(program: Program) -> dict[int, StageLiveness]:
    """The liveness of each stage, by its number."""
    roots = Roots(program.operators)
    stages = stage_operators(program)
    reader: dict[str, set[int]] = {}
    for stage, operators in stages.items():
        for operator in operators:
            for tensor in operator.read:
                for root in roots.of(tensor):
                    reader.setdefault(root.name, set()).add(stage)
    made = {t.name: stage for stage, ops in stages.items() for op in ops for t in op.outputs}
    by_stage: dict[int, StageLiveness] = {}
    for number, stage in enumerate(program.stages):
        outgoing = frozenset(
            name for name, at in made.items() if at == stage and reader.get(name, set()) - {stage}
        )
        by_stage[stage] = stage_liveness(
            stages[stage],
            # A view that another stage made is here a copy of its own.
            Roots(stages[stage]),
            training=program.settings.training,
            recompute=stage_recomputation(program),
            stashed=stash_depth(program, number) > 1,
            # PopART: Pipeline::setFinalFwdStageRecomputation.
            spared=program.settings.pipelined and number == len(program.stages) - 1,
            outgoing=outgoing,
        )
    for copy in stage_copies(program):
        if not copy.read:
            by_stage[copy.target].passing[copy.tensor.name] = copy.bytes * (1 + copy.returns)
    return by_stage


def predict_memory(
    program: Program,
    machine: Machine,
    pricing: Pricing,
    lives: Mapping[int, StageLiveness],
    *,
    detailed: bool = True,
) -> MemoryReport:
    """The memory of a program's IPUs.

    Args:
        lives: its stages' (:func:`livenesses`).
        detailed: with the tensors of the peak, by layer; without them, and the schedule, it takes
            half the time.
    """
    stages = stage_operators(program)
    where = {stage: _ipu_of(operators) for stage, operators in stages.items()}
    ipus = sorted(set(where.values())) or [0]
    origins = _origins(program) if detailed else {}
    weights = _weights_by_ipu(program)
    memories, off_chip = [], 0
    for ipu in ipus:
        here = [stage for stage in program.stages if where[stage] == ipu]
        operators = [op for stage in here for op in stages[stage]]
        memory, outside = _ipu_memory(
            program, machine, pricing, ipu, here, operators, weights.get(ipu, []), lives, origins,
            detailed,
        )  # fmt: skip
        memories.append(memory)
        off_chip += outside
    return MemoryReport(tuple(memories), off_chip)


def _origins(program: Program) -> dict[str, NodeOrigin]:
    """Tensor -> what made it; of a weight or a constant, its layer is that of its first reader."""
    origins: dict[str, NodeOrigin] = {}
    for operator in program.operators:
        origins.update((tensor.name, operator.origin) for tensor in operator.outputs)
        for tensor in operator.read:
            if tensor.role == "weight":
                origins.setdefault(tensor.name, NodeOrigin(layer=operator.origin.layer))
    return origins


def _by_layer(holdings: list[Holding], name: Callable[[str], str] = folded) -> dict[str, int]:
    found: dict[str, int] = {}
    for holding in holdings:
        layer = name(holding.origin.layer)
        found[layer] = found.get(layer, 0) + holding.bytes
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _ipu_of(operators: list[Operator]) -> int:
    return operators[0].ipu if operators else 0


def _weights_by_ipu(program: Program) -> dict[int, list[Tensor]]:
    by_ipu: dict[int, dict[str, Tensor]] = {}
    for operator in program.operators:
        for tensor in operator.read:
            if tensor.role == "weight":
                by_ipu.setdefault(operator.ipu, {})[tensor.name] = tensor
    return {ipu: list(tensors.values()) for ipu, tensors in by_ipu.items()}


def _ipu_memory(
    program: Program,
    machine: Machine,
    pricing: Pricing,
    ipu: int,
    here: list[int],
    operators: list[Operator],
    weights: list[Tensor],
    lives: Mapping[int, StageLiveness],
    origins: Mapping[str, NodeOrigin],
    detailed: bool,
) -> tuple[IpuMemory, int]:
    settings, processor = program.settings, machine.processor
    always, holdings, off_chip = _always(program, weights, operators, origins)
    buffer = always.pop("optimizer state") if _updates_apart(program) else 0
    costs = [pricing.cost_of(operator) for operator in operators]
    temporaries = {
        op.name: int(max(cost.forward.temporary, cost.backward.temporary) * processor.tiles)
        for op, cost in zip(operators, costs, strict=True)
    }
    code = _code_per_tile(costs, pricing, program) * processor.tiles
    stash = 0
    for stage in here:
        stash += sum(lives[stage].passing.values())
        holdings += [
            Holding(name, "stash", size, origins.get(name, NodeOrigin()))
            for name, size in lives[stage].passing.items()
        ]
        depth = stash_depth(program, program.stages.index(stage))
        if not settings.activations_on_chip:
            off_chip += depth * lives[stage].stash_bytes
            continue
        stash += depth * lives[stage].stash_bytes
        # A stash that is read at once is no stash: it is alive in the schedule itself.
        holdings += [
            Holding(t.name, "stash", depth * t.bytes, origins.get(t.name, NodeOrigin()))
            for t in lives[stage].stash
        ]
    steps: list[Step] = []
    for stage in here:
        steps += lives[stage].forward
    for stage in reversed(here):
        steps += lives[stage].backward
    held = sum(always.values()) + stash
    peak, at, live, temporary = held, 0, 0, 0
    for index, step in enumerate(steps):
        needed = temporaries.get(step.label, 0)
        total = int(held + step.bytes + needed)
        if total > peak:
            peak, at, live, temporary = total, index, int(step.bytes), needed
    if in_update := held + buffer > peak:
        peak, at, live, temporary = held + buffer, len(steps), 0, 0
    categories = {
        **always,
        **({"optimizer state": buffer} if in_update else {}),
        "code": int(code),
        "stash": stash,
        "activations": live,
        "temporaries": temporary,
    }
    per_tile = peak / processor.tiles * pricing.constants.tile_imbalance + code / processor.tiles
    memory = IpuMemory(
        ipu=ipu,
        capacity=processor.memory,
        tile_capacity=processor.tile_memory,
        peak=int(peak + code),
        per_tile=int(per_tile),
        categories={name: categories.get(name, 0) for name in CATEGORIES},
        always=int(sum(always.values()) + code),
    )
    if not detailed:
        return memory, off_chip
    memory.steps = [
        Step(s.label, s.phase, float(int(held + s.bytes + temporaries.get(s.label, 0)) + code))
        for s in steps
    ]
    if buffer:
        memory.steps.append(Step("optimizer state", "update", float(held + buffer + code)))
    memory.peak_step = at
    _add_holdings(memory, holdings, always, [] if in_update else here, lives, origins)
    return memory, off_chip


def _add_holdings(
    memory: IpuMemory,
    holdings: list[Holding],
    always: Mapping[str, int],
    here: list[int],
    lives: Mapping[int, StageLiveness],
    origins: Mapping[str, NodeOrigin],
) -> None:
    """Notes an IPU's tensors, by layer.

    Args:
        holdings: those that always live, and the stash.
        always: the categories of the former.
        here: stages of the IPU, if one of them is at work at the peak.
    """
    peak_tensors: list[Tensor] = []
    if here:
        fullest = max(here, key=lambda stage: sum(t.bytes for t in lives[stage].peak_tensors))
        peak_tensors = lives[fullest].peak_tensors
    kept = {holding.name for holding in holdings}
    holdings += [
        Holding(t.name, "activations", t.bytes, origins.get(t.name, NodeOrigin()))
        for t in peak_tensors
        if t.name not in kept
    ]
    memory.layers = _by_layer(holdings)
    memory.always_layers = _by_layer([h for h in holdings if h.category not in PASSING])
    memory.whole_layers = _by_layer(holdings, str)
    memory.category_layers = {
        name: _by_layer([h for h in holdings if h.category == name])
        for name in (*always, "stash")
        if any(h.category == name for h in holdings)
    }
    memory.holdings = sorted(holdings, key=lambda h: (-h.bytes, h.name))[:40]


def _updates_apart(program: Program) -> bool:
    """Whether optimizer state comes to the chip only when no micro-batch is at work."""
    settings = program.settings
    return settings.training and settings.accumulation > 1 and not settings.state_on_chip


def _always(
    program: Program,
    weights: list[Tensor],
    operators: list[Operator],
    origins: Mapping[str, NodeOrigin],
) -> tuple[dict[str, int], list[Holding], int]:
    """Bytes that live through the step by category, the tensors, and the bytes off the chip."""
    settings = program.settings
    holdings: list[Holding] = []
    off_chip = 0
    by_category: dict[str, int] = {}

    def place(category: str, tensors: list[tuple[Tensor, int]], on_chip: bool, split: bool) -> None:
        nonlocal off_chip
        replicas = settings.replicas if split else 1
        sizes = []
        for tensor, size in tensors:
            parts = replicas if tensor.elements >= settings.state_min_elements else 1
            sizes.append((tensor, -(-size // parts)))
        total = sum(size for _, size in sizes)
        if on_chip:
            by_category[category] = total
            holdings.extend(
                Holding(t.name, category, size, origins.get(t.name, NodeOrigin()))
                for t, size in sizes
            )
            return
        off_chip += total
        by_category[category] = max((size for _, size in sizes), default=0)

    place(
        "weights",
        [(t, t.bytes) for t in weights],
        settings.weights_on_chip,
        settings.weights_sharded,
    )
    if settings.training:
        trained = [t for t in weights if t.name in program.state]
        place(
            "optimizer state",
            [(t, program.state[t.name]) for t in trained],
            settings.state_on_chip,
            settings.state_sharded,
        )
        if settings.accumulation > 1:
            place(
                "accumulators",
                [(t, t.bytes) for t in trained],
                settings.accumulators_on_chip,
                settings.accumulators_sharded,
            )
    constants = {t.name: t for op in operators for t in op.read if t.role == "constant"}
    by_category["constants"] = sum(t.bytes for t in constants.values())
    inputs = {t.name: t for op in operators for t in op.read if t.role == "input"}
    anchors = {t.name: t for op in operators for t in op.outputs if t.name in program.anchors}
    # The device has one buffer of a stream; the others are the host's.
    by_category["streams"] = sum(t.bytes for t in (*inputs.values(), *anchors.values()))
    return by_category, holdings, off_chip


def _code_per_tile(costs: Sequence[OperatorCost], pricing: Pricing, program: Program) -> float:
    """Bytes of a tile for code, vertices and exchange; equal operators share it by outlining."""
    seen: set[int] = set()
    sets = 0.0
    for cost in costs:
        if program.settings.outlining and id(cost) in seen:
            continue
        seen.add(id(cost))
        sets += cost.forward.sets
        if program.settings.training:
            sets += cost.backward.sets
    return sets * pricing.constants.code_bytes_per_set
