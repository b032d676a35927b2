"""Constants fitted to rates that known constants made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.fit import Observation, comparable, fit, left_out, text
from benchmarks.published import OLDEST_SDK, ROWS
from paddle_ipu.cost_model.constants import CONSTANTS, TABLE, Constants

TRUE = replace(CONSTANTS, exchange_efficiency=0.8, vertex_overhead=1.25)
"""Others than the table's, and within what is believed of them."""
MIXES = ((3, 1), (1, 3), (2, 2), (5, 1), (1, 6), (4, 3), (2, 5), (1, 1))
"""Seconds of exchange and of elementwise vertices, of the made-up programs."""


def rate_of(exchange: float, vertices: float, host: float = 0.0) -> Callable[[Constants], float]:
    """Rows a second of a program; `host` counts its runs."""

    def rate(constants: Constants) -> float:
        seconds = 4.0 + exchange / constants.exchange_efficiency
        return 1.0 / (seconds + vertices * constants.vertex_overhead + host * constants.run_seconds)

    return rate


def made(*factors: float) -> list[Observation]:
    """What the true constants give, times a factor for each of the first."""
    found = []
    for at, (exchange, vertices) in enumerate(MIXES):
        rate = rate_of(exchange, vertices)
        wrong = factors[at] if at < len(factors) else 1.0
        found.append(Observation(f"row {at}", f"figure {at}", rate(TRUE) * wrong, rate))
    return found


def test_the_constants_that_made_the_rates_are_found() -> None:
    found = fit(made())
    assert found.names == ("exchange_efficiency", "vertex_overhead")
    assert found.constants.exchange_efficiency == pytest.approx(0.8, rel=1e-3)
    assert found.constants.vertex_overhead == pytest.approx(1.25, rel=1e-3)
    assert left_out(made()) == pytest.approx([0.0] * len(MIXES), abs=1e-3)


def test_assumed_constants_and_those_that_no_rate_hangs_on_stay() -> None:
    found = fit(made())
    fitted = dict.fromkeys(found.names, 1.0)
    assert replace(found.constants, **fitted) == replace(CONSTANTS, **fitted)
    assert fit([]).constants == CONSTANTS


def test_one_wrong_figure_moves_little_and_is_seen() -> None:
    rows = made(1.5)
    found = fit(rows)
    assert all(abs(row.error(found.constants)) < 0.03 for row in rows[1:])
    assert left_out(rows)[0] == pytest.approx(1 / 1.5 - 1, abs=1e-3)


def test_rows_of_one_figure_are_left_out_together() -> None:
    rows = [
        replace(row, figure="one") if at < 3 else row for at, row in enumerate(made(*[1.2] * 3))
    ]
    errors = left_out(rows)
    assert errors[:3] == pytest.approx([1 / 1.2 - 1] * 3, abs=1e-3)


def test_a_constant_stays_within_what_is_believed_of_it() -> None:
    beyond = replace(TRUE, exchange_efficiency=1.2)
    rows = [replace(row, published=row.rate(beyond)) for row in made()]
    end = CONSTANTS.exchange_efficiency * TABLE["exchange_efficiency"].high
    assert fit(rows).constants.exchange_efficiency == pytest.approx(end)


def test_no_error_is_claimed_for_a_figure_that_a_constant_hangs_on_alone() -> None:
    small = rate_of(0.0, 0.0, host=2e3)
    rows = [*made(), Observation("small", "small", small(TRUE), small)]
    assert "run_seconds" in fit(rows).names
    *others, last = left_out(rows)
    assert last is None and None not in others
    lines = text(rows, range(len(rows))).splitlines()
    (line,) = [line for line in lines if "small" in line]
    assert line.endswith(" -")
    assert lines[-1].startswith("-: a constant hangs on this figure alone")


def test_the_text_has_values_errors_and_rows_that_were_not_fitted_to() -> None:
    shown = text(made(1.5), range(1, len(MIXES)))
    lines = {line.split()[0]: line.split() for line in shown.splitlines() if line}
    assert shown.startswith("fitted to 7 rows of 7 published figures\n")
    assert lines["exchange_efficiency"][1:4] == ["0.75", "0.8", "0.6375"]
    assert lines["tile_imbalance"][2] == "held"
    first = next(line for line in shown.splitlines() if "row 0" in line)
    assert first.split()[0] == "1*" and first.split()[-2:] == ["-33.3%", "-33.3%"]
    assert shown.splitlines()[-1] == "*: not fitted to, predicted only"
    assert next(line for line in shown.splitlines() if "row 1" in line).endswith("+0.0%")


def test_rows_of_an_older_sdk_are_not_fitted_to() -> None:
    newest, oldest, older, unknown = (
        replace(ROWS[0], sdk=sdk) for sdk in ((3, 3), OLDEST_SDK, (2, 3), ())
    )
    assert comparable([newest, older, oldest, older, unknown]) == {0, 2, 4}
    assert comparable(ROWS) == set(range(len(ROWS)))
