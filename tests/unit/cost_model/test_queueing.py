"""What requests wait: beside formulas for one row a run, and a simulation of many rows."""

from __future__ import annotations

from math import exp, factorial

import numpy as np
import pytest

from paddle_ipu.cost_model.machines import MACHINES
from paddle_ipu.cost_model.queueing import serving
from paddle_ipu.cost_model.report.as_json import report_as_json
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.predicted_report import PredictedReport
from tests.unit.cost_model.programs import chain

POD4 = MACHINES["POD4"]


def waits_at_most(wait: float, load: float) -> float:
    """Erlang's formula for M/D/1: the chance to wait at most so many runs before one's own."""
    return (1 - load) * sum(
        (load * (at - wait)) ** at / factorial(at) * exp(-load * (at - wait))
        for at in range(int(wait) + 1)
    )


@pytest.mark.parametrize("load", [0.1, 0.5, 0.7])
def test_one_row_a_run_waits_as_erlang_found(load: float) -> None:
    found = serving(load * 100, 0.01, 1)
    assert found.largest == pytest.approx(100) and found.busy == pytest.approx(load)
    for share, seconds in found.percentiles.items():
        wait = seconds / 0.01 - 1
        if wait > 0:
            assert waits_at_most(wait, load) == pytest.approx(share, abs=0.004)
        else:
            assert waits_at_most(0.0, load) >= share


def simulated(requests: float, seconds: float, rows: int, count: int = 200_000) -> list[float]:
    """Percentiles of requests that come at random moments."""
    comes = np.cumsum(np.random.default_rng(7).exponential(1 / requests, count))
    answered = np.empty(count)
    first, now = 0, 0.0
    while first < count:
        now = max(now, comes[first])
        last = min(first + rows, int(np.searchsorted(comes, now, side="right")))
        now += seconds
        answered[first:last] = now
        first = last
    return [float(each) for each in np.quantile(answered - comes, [0.5, 0.9, 0.99])]


@pytest.mark.parametrize(("rows", "load"), [(4, 0.3), (4, 0.8), (64, 0.6), (64, 0.95)])
def test_many_rows_a_run_wait_as_simulated(rows: int, load: float) -> None:
    found = serving(load * rows / 0.002, 0.002, rows)
    assert [*found.percentiles] == [0.5, 0.9, 0.99]
    expected = simulated(load * rows / 0.002, 0.002, rows)
    assert [*found.percentiles.values()] == pytest.approx(expected, rel=0.03)


def test_a_request_that_nobody_disturbs_takes_a_run() -> None:
    found = serving(1e-3, 0.002, 8)
    assert [*found.percentiles.values()] == pytest.approx([0.002] * 3)
    assert found.busy == pytest.approx(2e-6, rel=1e-3)


def test_near_the_largest_rate_there_is_no_answer() -> None:
    assert serving(98.0, 0.01, 1).percentiles
    for requests in (99.5, 100.0, 1e9):
        found = serving(requests, 0.01, 1)
        assert not found.percentiles and found.busy == 1.0 and found.largest == pytest.approx(100)


def test_a_report_says_what_requests_wait() -> None:
    program = chain(2, rows=8, training=False)
    most = make_report(program, POD4).prediction.cycles.throughput
    contents = make_report(program, POD4, requests=most / 2)
    found = contents.serving
    assert found is not None and found.largest == pytest.approx(most)
    line = next(each for each in str(PredictedReport(contents)).splitlines() if "serving" in each)
    assert "p50" in line and "p99" in line and f"at most {most:,.0f} requests/s" in line
    data = report_as_json(contents)["serving"]
    assert data["percentiles"] == [[share, time] for share, time in found.percentiles.items()]
    late = PredictedReport(make_report(program, POD4, requests=2 * most))
    assert "too many, the queue grows" in str(late)
    assert "serving" not in report_as_json(make_report(program, POD4))
