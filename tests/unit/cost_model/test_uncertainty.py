"""How far a rate may be off, and what it hangs on."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from paddle_ipu.cost_model.constants import CONSTANTS, TABLE, Constants
from paddle_ipu.cost_model.machines import (
    MACHINE_SOURCES,
    MACHINES,
    PROCESSOR_SOURCES,
    UNCERTAIN,
    Machine,
)
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.predicted_report import PredictedReport
from paddle_ipu.cost_model.uncertainty import UNMODELLED, Interval, rate_interval, ratio_interval
from tests.unit.cost_model.programs import chain

POD4 = MACHINES["POD4"]


def interval_of(program: Program, machine: Machine = POD4) -> tuple[Interval, float]:
    found = predict(program, machine)
    return rate_interval(found, livenesses(program)), found.cycles.throughput


def test_every_constant_says_where_it_comes_from() -> None:
    assert [*TABLE] == [field.name for field in fields(Constants)]
    for belief in TABLE.values():
        assert belief.kind in {"fitted", "counted", "assumed"} and belief.why
        assert belief.low < 1.0 < belief.high
    assert len([b for b in TABLE.values() if b.kind == "fitted"]) <= 5
    assert {*UNCERTAIN} <= {*PROCESSOR_SOURCES, *MACHINE_SOURCES}
    assert all(low < 1.0 < high for low, high in UNCERTAIN.values())


def test_the_ends_add_up_as_independent_figures_do() -> None:
    program = chain(2, rows=64, width=512, accumulation=64)
    found, rate = interval_of(program)
    assert found.low < rate < found.high
    assert found.low < rate * UNMODELLED[0] and found.high > rate * UNMODELLED[1]
    # Not as if all of them were wrong together.
    worst = UNMODELLED[0]
    for influence in found.influences:
        worst *= min(1.0, *influence.rates)
    assert found.low > rate * worst
    reaches = [influence.reach for influence in found.influences]
    assert reaches == sorted(reaches, reverse=True) and reaches[0] > 0


def test_an_influence_is_what_a_prediction_with_the_changed_figure_says() -> None:
    program = chain(2, rows=64, width=512, accumulation=64)
    found, rate = interval_of(program)
    influence = next(i for i in found.influences if i.name == "exchange_efficiency")
    low = TABLE["exchange_efficiency"].low
    slower = replace(CONSTANTS, exchange_efficiency=CONSTANTS.exchange_efficiency * low)
    again = predict(program, POD4, Pricing(POD4.processor, slower)).cycles.throughput
    assert influence.rates[0] == pytest.approx(again / rate) and again < rate
    influence = next(i for i in found.influences if i.name == "sync_cycles")
    _, most = UNCERTAIN["sync_cycles"]
    processor = replace(POD4.processor, sync_cycles=int(POD4.processor.sync_cycles * most))
    again = predict(program, replace(POD4, processor=processor)).cycles.throughput
    assert influence.rates[1] == pytest.approx(again / rate) and influence.kind == "machine"


def test_ratios_are_surer_than_rates_for_figures_are_wrong_for_both() -> None:
    one, two = (chain(2, rows=rows, width=512, accumulation=64) for rows in (64, 32))
    lives, others = livenesses(one), livenesses(two)
    first, other = predict(one, POD4), predict(two, POD4)
    assert ratio_interval(first, first, lives, lives) == pytest.approx((1.0, 1.0))
    low, high = ratio_interval(first, other, lives, others)
    assert low < other.cycles.throughput / first.cycles.throughput < high < 1
    # The other way round it is the inverse.
    assert ratio_interval(other, first, others, lives) == pytest.approx((1 / high, 1 / low))
    alone, _ = interval_of(two)
    assert high / low < alone.high / alone.low
    nothing = replace(first, cycles=replace(first.cycles, throughput=0.0))
    assert ratio_interval(nothing, other, lives, others) == (0.0, 0.0)


def test_a_figure_that_only_one_of_two_hangs_on_widens_their_ratio() -> None:
    program = chain(2, rows=64, width=512, accumulation=64)
    state = {weight.name: 8 * weight.elements for weight in program.weights}
    on_chip = replace(program, state=state)
    off_chip = on_chip.with_settings(state_on_chip=False)
    lives = livenesses(program)
    low, high = ratio_interval(predict(on_chip, POD4), predict(off_chip, POD4), lives, lives)
    slow = replace(POD4, streaming_bandwidth=POD4.streaming_bandwidth / 2)
    worse = predict(off_chip, slow).cycles.throughput / predict(on_chip, slow).cycles.throughput
    assert UNCERTAIN["streaming_bandwidth"][0] == 0.5 and low <= worse * (1 + 1e-9) < high


def test_what_a_program_does_not_use_has_no_influence() -> None:
    names = {influence.name for influence in interval_of(chain(2))[0].influences}
    assert not names & {"softmax_forward", "gates_forward", "streaming_bandwidth", "tile_imbalance"}
    program = chain(2, accumulation=2)
    state = {weight.name: 8 * weight.elements for weight in program.weights}
    off_chip = replace(program, state=state).with_settings(state_on_chip=False)
    names = {influence.name for influence in interval_of(off_chip)[0].influences}
    assert "streaming_bandwidth" in names


def test_reports_have_the_interval() -> None:
    report = PredictedReport(make_report(chain(2, rows=64, width=512), POD4))
    low, high = report.interval
    told = f"80 % interval {low:,.0f} to {high:,.0f} rows/s, by what is assumed and left out"
    checked = (
        "checked       on published rates of BERT and ResNet-50; those of other networks were "
        "17 to 38 % lower than predicted"
    )
    for shown in (str(report), repr(report)):
        assert shown.splitlines()[2:4] == [told, checked]
    data = report.to_dict()["interval"]
    assert (data["low"], data["high"]) == (low, high)
    assert checked.endswith(data["checked"])
    first = data["influences"][0]
    (line,) = [each for each in str(report).splitlines() if each.startswith(f"  {first['name']} ")]
    assert f"{first['rates'][0] - 1:+.1%} with {first['factors'][0]:g} times it" in line
