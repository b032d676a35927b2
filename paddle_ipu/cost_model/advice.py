"""What would make a program that does not fit fit: each change with the bytes it saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory import MemoryReport, livenesses, predict_memory
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.program import Program, Tensor
from paddle_ipu.cost_model.scaling import with_rows

LOW_PROPORTION = 0.1


@dataclass(frozen=True, slots=True)
class Advice:
    """One change to a strategy: what it is, how it is written, what it saves on the worst IPU.

    Attributes:
        option: for ``IpuStrategy.set_options``; "" where it is no option.
        saves: bytes of that IPU, all tiles.
        fits: whether the program fits then.
    """

    change: str
    option: str
    saves: int
    fits: bool

    def __str__(self) -> str:
        return f"{{{self.option}}}: {self.change}" if self.option else self.change


def advise(
    program: Program, machine: Machine, report: MemoryReport, pricing: Pricing | None = None
) -> list[Advice]:
    """The changes that save memory on the worst IPU, those that save most first."""
    pricing = pricing or Pricing(machine.processor)
    worst = report.worst
    advices = []
    for change, option, changed in _changes(program):
        after = predict_memory(changed, machine, pricing, livenesses(changed))
        same = next((ipu for ipu in after.ipus if ipu.ipu == worst.ipu), None)
        saves = worst.per_tile - (same.per_tile if same is not None else 0)
        if saves > 0:
            advices.append(Advice(change, option, saves * machine.processor.tiles, after.fits))
    return sorted(advices, key=lambda advice: -advice.saves)


def _changes(program: Program) -> Iterator[tuple[str, str, Program]]:
    settings = program.settings
    if settings.training and settings.recomputation == "NoRecompute":
        kind, value = ("Pipeline", 3) if settings.pipelined else ("Standard", 1)
        yield (
            "compute activations again in backward",
            f"'auto_recomputation': {value}",
            program.with_settings(recomputation=kind),
        )
    if settings.training and settings.state_on_chip and any(program.state.values()):
        yield (
            "keep optimizer state in streaming memory",
            "'location_optimizer': {'on_chip': 0, 'use_replicated_tensor_sharding': 1}",
            program.with_settings(state_on_chip=False, state_sharded=settings.replicas > 1),
        )
    if settings.training and settings.replicas > 1 and not settings.state_sharded:
        yield (
            "split optimizer state between the replicas",
            "'location_optimizer': {'use_replicated_tensor_sharding': 1}",
            program.with_settings(state_sharded=True),
        )
    if program.rows > 1 and program.rows % 2 == 0:
        more = " and twice the accumulation_factor" if settings.training else ""
        yield (
            f"halve the micro-batch{more}{declared_so(program)}",
            "" if program.rows_are_fixed else f"'micro_batch_size': {program.rows // 2}",
            with_rows(program, program.rows // 2),
        )
    if any(op.memory_proportion > LOW_PROPORTION for op in program.operators):
        yield (
            "give products and convolutions less memory; they take longer",
            f"'available_memory_proportion': {LOW_PROPORTION}, 'convolution_options': "
            f"{{'availableMemoryProportion': '{LOW_PROPORTION}'}}",
            with_proportion(program, LOW_PROPORTION),
        )
    if is_float(program):
        yield "compute in half", "'enable_fp16': True", in_half(program)


def declared_so(program: Program) -> str:
    """What another micro-batch asks of feeds that have a batch of their own."""
    return ", of feeds declared with dimension 0 -1" if program.rows_are_fixed else ""


def with_proportion(program: Program, proportion: float) -> Program:
    """The program with at most this share of a tile's memory for each product's plan."""
    lower = tuple(
        replace(op, memory_proportion=min(op.memory_proportion, proportion))
        for op in program.operators
    )
    return replace(program, operators=lower)


def is_float(program: Program) -> bool:
    """Whether most of the weights are float32; in half some still are, those of normalisations."""
    single = sum(weight.elements for weight in program.weights if weight.item == 4)
    return 2 * single > sum(weight.elements for weight in program.weights)


def in_half(program: Program) -> Program:
    """Every float tensor with half the bytes."""
    made: dict[str, Tensor] = {}

    def half(tensor: Tensor) -> Tensor:
        if tensor.dtype != "float32":
            return tensor
        if tensor.name not in made:
            made[tensor.name] = replace(tensor, dtype="float16", item=2)
        return made[tensor.name]

    return replace(
        program,
        operators=tuple(
            replace(
                op,
                inputs=tuple(None if t is None else half(t) for t in op.inputs),
                outputs=tuple(map(half, op.outputs)),
            )
            for op in program.operators
        ),
        weights=tuple(map(half, program.weights)),
        inputs=tuple(map(half, program.inputs)),
    )
