"""The published BERT-Base strategies: predicted beside published, and what fits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import median

import pytest

from benchmarks.published import ROWS, kept_strategies, program_of
from benchmarks.published_programs import (
    ATTENTION_IPUS,
    FEED_FORWARD_IPUS,
    bert,
    mlperf,
    mlperf_network,
    resnet,
    resnet_lars,
)
from examples.bert.stages.presets import PRESETS
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.uncertainty import rate_interval

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("static_mode")]

POD16 = machine_named("POD16")


@cache
def of_row(at: int) -> tuple[Program, Prediction]:
    program = program_of(ROWS[at], kept_strategies())
    return program, predict(program, machine_named(ROWS[at].machine))


def error(at: int) -> float:
    """The predicted rate over the published one, less 1."""
    return of_row(at)[1].cycles.throughput * ROWS[at].packed / ROWS[at].published - 1.0


@pytest.mark.filterwarnings("ignore:When training, we now always track global mean:UserWarning")
@pytest.mark.parametrize("at", range(len(ROWS)), ids=lambda at: f"{at + 1} {ROWS[at].name}")
def test_every_row_is_within_a_fifth_of_its_source_and_fits(at: int) -> None:
    assert of_row(at)[1].memory.fits
    assert abs(error(at)) < 0.2


@pytest.mark.filterwarnings("ignore:When training, we now always track global mean:UserWarning")
def test_the_rows_are_near_on_both_sides_and_within_their_intervals() -> None:
    places = [at for at, row in enumerate(ROWS) if row.is_comparable]
    errors = [error(at) for at in places]
    assert median(map(abs, errors)) < 0.07
    assert 0.25 < sum(each > 0 for each in errors) / len(errors) < 0.75
    inside = 0
    for at in places:
        program, found = of_row(at)
        interval, packed = rate_interval(found, livenesses(program)), ROWS[at].packed
        inside += interval.low * packed <= ROWS[at].published <= interval.high * packed
    assert inside >= 0.8 * len(places)


def predicted(program: Program) -> Prediction:
    return predict(program, POD16)


def test_phase_1_fits_is_near_the_published_rate_and_needs_its_strategy() -> None:
    program = bert()
    found = predicted(program)
    assert found.memory.fits
    assert found.cycles.throughput == pytest.approx(ROWS[0].published, rel=0.25)
    assert not predicted(program.with_settings(recomputation="NoRecompute")).memory.fits
    # The encoder on one IPU in place of three: stages 1 to 3 become one.
    together = tuple(
        replace(op, ipu=min(op.stage % 4, 1), stage=min(op.stage, 1) + (op.stage > 3))
        for op in program.operators
    )
    assert {op.stage for op in together} == {0, 1, 2}
    assert not predicted(replace(program, operators=together)).memory.fits


def test_phase_2_fits_and_needs_recomputation() -> None:
    program = bert(**PRESETS["pod16-phase2"])
    assert predicted(program).memory.fits
    assert not predicted(program.with_settings(recomputation="NoRecompute")).memory.fits


def test_mlperfs_layers_are_on_the_published_ipus_and_its_masks_are_matrices() -> None:
    program = mlperf()
    found: dict[str, set[tuple[int, int]]] = {}
    for op in program.operators:
        found.setdefault(op.origin.layer, set()).add((op.ipu, op.stage))
    for layer, (attention, forward) in enumerate(
        zip(ATTENTION_IPUS, FEED_FORWARD_IPUS, strict=True)
    ):
        assert found[f"encoder.{layer}.attention.query"] == {(attention, attention)}
        assert found[f"encoder.{layer}.feed_forward.outer"] == {(forward, forward or 8)}
    masks = [
        op
        for op in program.operators
        if op.op_type == "Add" and op.outputs[0].dims == (3, 16, 512, 512)
    ]
    assert len(masks) == 24
    # Each IPU with attention makes its own: none is copied over links.
    assert {t.dims for op in masks for t in op.read} == {(3, 16, 512, 512), (3, 1, 512, 512)}
    made = {t.name: op.ipu for op in program.operators for t in op.outputs}
    assert all(made[t.name] == op.ipu for op in masks for t in op.read)
    # The published placement beats the even one of whole layers.
    bow = machine_named("Bow-Pod16")
    rates = [predict(p, bow).cycles.throughput for p in (program, mlperf_network())]
    assert rates[0] > 1.05 * rates[1]


def test_packs_cost_more_than_plain_rows() -> None:
    large = {"seq_len": 512, "max_predictions_per_seq": 76, "micro_batch_size": 2}
    plain, packed = (predicted(bert(packed=packed, **large)) for packed in (False, True))
    assert packed.cycles.throughput < plain.cycles.throughput
    assert packed.memory.worst.per_tile > plain.memory.worst.per_tile


@pytest.mark.filterwarnings("ignore:When training, we now always track global mean:UserWarning")
def test_resnets_published_stages_are_cut_behind_its_blocks_and_the_last_is_spared() -> None:
    program = resnet_lars()
    assert (program.samples, program.rows) == (3520, 22)
    assert len(program.stages) == 1
    # Stage 1 ends behind its first and third block, and so on.
    kept = [op.outputs[0].dims for op in program.operators if op.checkpoint]
    sizes = [(256, 56), (256, 56), (512, 28), (512, 28), (1024, 14), (1024, 14)]
    assert kept == [(22, channels, size, size) for channels, size in sizes]
    (live,) = livenesses(program).values()
    last = max(at for at, op in enumerate(program.operators) if op.checkpoint)
    again = {op.name for op in live.again}
    assert again == {op.name for op in program.operators[: last + 1]}
    # Momentum is half, as its weight is.
    weights = {t.name: t.bytes for t in program.weights if t.name in program.state}
    assert weights == {name: program.state[name] for name in weights}


@pytest.mark.filterwarnings("ignore:When training, we now always track global mean:UserWarning")
def test_the_published_resnets_norms_are_in_half() -> None:
    program = resnet()
    norms = [op for op in program.operators if op.op_type == "BatchNormalization"]
    assert len(norms) == 53
    assert all(t.dtype == "float16" for op in norms for t in (op.read[0], op.outputs[0]))
    made = {t.name for op in program.operators for t in op.outputs}
    known = made | {t.name for t in (*program.weights, *program.inputs)}
    assert all(t.name in known for op in program.operators for t in op.read)
