"""What would make a program faster: each change predicted anew, with what it gains and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from paddle_ipu.cost_model.advice import declared_so, in_half, is_float
from paddle_ipu.cost_model.cycles import predict_cycles
from paddle_ipu.cost_model.matmul_plan import AMP_WIDTH
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.scaling import with_rows

_WORTH = 0.01
_IO_TILES = 32
_UNEVEN = 1.1
"""The slowest IPU's work over the mean from which on a pipeline is called uneven."""


@dataclass(frozen=True, slots=True)
class Insight:
    """One change to a strategy: what it is, how it is written, what it gains.

    Attributes:
        option: for ``IpuStrategy.set_options``; "" where it is no option.
        throughput: rows a second then; an upper bound where `bound`.
        gain: of the throughput, 0.1 for a tenth more.
        memory: bytes that the fullest IPU needs more, all tiles; negative where it needs less.
        fits: whether the program fits then.
        latency: seconds of a micro-batch then, in inference; 0 in training.
    """

    change: str
    option: str
    throughput: float
    gain: float
    memory: int
    fits: bool
    bound: bool = False
    latency: float = 0.0


def speed_insights(prediction: Prediction, pricing: Pricing | None = None) -> list[Insight]:
    """The changes that make a program at least 1 % faster: those that fit first, the best first."""
    pricing = pricing or Pricing(prediction.machine.processor)
    program, machine = prediction.program, prediction.machine
    before, tiles = prediction.cycles.throughput, machine.processor.tiles
    insights = []
    for change, option, changed in _changes(prediction):
        after = predict(changed, machine, pricing, livenesses(changed))
        gain = after.cycles.throughput / before - 1 if before else 0.0
        if gain < _WORTH:
            continue
        more = (after.memory.worst.per_tile - prediction.memory.worst.per_tile) * tiles
        throughput, fits = after.cycles.throughput, after.memory.fits
        latency = after.cycles.latency
        insights.append(Insight(change, option, throughput, gain, more, fits, latency=latency))
    insights += _padding(prediction, pricing)
    if program.settings.pipelined:
        insights += _balance(prediction)
    return sorted(insights, key=lambda insight: (not insight.fits, -insight.gain))


def _balance(prediction: Prediction) -> Iterator[Insight]:
    cycles = prediction.cycles
    work: dict[int, float] = {}
    for stage in cycles.stages:
        work[stage.ipu] = work.get(stage.ipu, 0.0) + stage.cycles - stage.stream
    if len(work) < 2:
        return
    most, mean = max(work.values()), sum(work.values()) / len(work)
    flow = cycles.per_update - cycles.phases.get("update", 0.0)
    if most < _UNEVEN * mean or not flow:
        return
    slowest = max(work, key=lambda ipu: work[ipu])
    saved = flow * (most - mean) / cycles.steady
    # The host's part of a run stays.
    run = cycles.per_update * cycles.seconds / (cycles.seconds - cycles.host)
    gain = run / (run - saved) - 1
    yield Insight(
        f"move layers away from IPU {slowest}, for which the others wait: it works "
        f"{most / mean:.2f} times as long as IPUs do on average (`paddle-ipu plan` finds places)",
        "",
        cycles.throughput * (1 + gain),
        gain,
        0,
        prediction.memory.fits,
        bound=True,
    )


def _padding(prediction: Prediction, pricing: Pricing) -> Iterator[Insight]:
    """What lengths cost that the AMP unit has to be filled up for."""
    program, machine = prediction.program, prediction.machine
    lengths = Counter(
        length
        for operator in program.operators
        if operator.cost is not None and operator.cost.kind == "matmul"
        for tensor in operator.read[:2]
        for length in tensor.dims[-2:]
        if length > AMP_WIDTH and length % AMP_WIDTH
    )
    before = prediction.cycles.throughput
    if not lengths or not before:
        return
    padded = Pricing(machine.processor, pricing.constants, padded=True)
    after = predict_cycles(program, machine, padded, livenesses(program)).throughput
    if after < (1.0 + _WORTH) * before:
        return
    # Of batches of rows, the rows.
    alone = [
        length
        for length, _ in lengths.most_common()
        if not any(length % other == 0 for other in lengths if other != length)
    ]
    length, *others = alone[:3]
    likewise = f" (likewise {', '.join(map(str, others))})" if others else ""
    yield Insight(
        f"pad what matrix products read to lengths that are multiples of {AMP_WIDTH}, as "
        f"{ceil(length / AMP_WIDTH) * AMP_WIDTH} in place of {length}{likewise}",
        "",
        after,
        after / before - 1.0,
        0,
        prediction.memory.fits,
        bound=True,
    )


def _changes(prediction: Prediction) -> Iterator[tuple[str, str, Program]]:
    program, settings = prediction.program, prediction.program.settings
    training = settings.training
    if training and settings.recomputation != "NoRecompute":
        yield (
            "keep activations instead of computing them again",
            "'auto_recomputation': 0",
            program.with_settings(recomputation="NoRecompute"),
        )
    if training and settings.accumulation > 1:
        yield (
            "twice the accumulation_factor: fill, drain and weight update come half as often",
            f"'accumulation_factor': {2 * settings.accumulation}",
            program.with_settings(accumulation=2 * settings.accumulation),
        )
        if settings.accumulation % 2 == 0:
            yield (
                f"twice the micro-batch and half the accumulation_factor{declared_so(program)}",
                ""
                if program.rows_are_fixed
                else f"'micro_batch_size': {2 * program.rows}, "
                f"'accumulation_factor': {settings.accumulation // 2}",
                with_rows(program, 2 * program.rows).with_settings(
                    accumulation=settings.accumulation // 2
                ),
            )
    else:
        yield (
            f"twice the micro-batch{declared_so(program)}",
            "" if program.rows_are_fixed else f"'micro_batch_size': {2 * program.rows}",
            with_rows(program, 2 * program.rows),
        )
    yield (
        "twice the batches_per_step, with as many more rows a run: the host's call comes half as "
        "often",
        f"'batches_per_step': {2 * settings.batches_per_step}",
        program.with_settings(batches_per_step=2 * settings.batches_per_step),
    )
    if training and not settings.state_on_chip and any(program.state.values()):
        yield (
            "keep optimizer state on the chip",
            "'location_optimizer': {'on_chip': 1, 'use_replicated_tensor_sharding': "
            f"{int(settings.state_sharded and settings.replicas > 1)}}}",
            program.with_settings(state_on_chip=True),
        )
    if training and settings.replicas > 1 and not settings.state_sharded:
        yield (
            "split the weight update between the replicas",
            f"'location_optimizer': {{'on_chip': {int(settings.state_on_chip)}, "
            "'use_replicated_tensor_sharding': 1}",
            program.with_settings(state_sharded=True),
        )
    if not settings.io_tiles and any(stage.stream for stage in prediction.cycles.stages):
        yield (
            "set tiles aside, so that the host's data comes while the others compute",
            f"'num_io_tiles': {_IO_TILES}",
            program.with_settings(io_tiles=_IO_TILES),
        )
    if is_float(program):
        yield "compute in half", "'enable_fp16': True", in_half(program)
    elif any(not op.half_partials for op in program.operators):
        half = tuple(replace(op, half_partials=True) for op in program.operators)
        yield (
            "partial sums of products in half",
            "'enable_half_partial': True",
            replace(program, operators=half),
        )
