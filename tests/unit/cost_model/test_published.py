"""The published BERT-Base strategies: predicted beside published, and what fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.published import ROWS, Row, bert, kept_strategies, program_of
from examples.bert.stages.presets import PRESETS
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("static_mode")]

POD16 = machine_named("POD16")


@pytest.mark.filterwarnings("ignore:When training, we now always track global mean:UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name} {row.published} {row.batch}")
def test_every_row_is_within_a_quarter_of_its_source_and_fits(row: Row) -> None:
    found = predict(program_of(row, kept_strategies()), machine_named(row.machine))
    assert found.memory.fits
    assert found.cycles.throughput * row.packed == pytest.approx(row.published, rel=0.25)


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
