"""Which of a plan's candidates comes first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paddle_ipu.cost_model.constants import TABLE
from paddle_ipu.cost_model.plan import SURE, Candidate, preferred


def candidate(rate: float, share: float, room: bool = True) -> Candidate:
    worst = SimpleNamespace(per_tile=share * 1000, tile_capacity=1000)
    prediction: Any = SimpleNamespace(
        cycles=SimpleNamespace(throughput=rate), memory=SimpleNamespace(worst=worst, has_room=room)
    )
    return Candidate(prediction, None)


def order(*found: Candidate) -> list[float]:
    return [one.prediction.cycles.throughput for one in preferred(found, lambda one: one)]


def test_the_fastest_with_room_comes_first() -> None:
    found = candidate(90, 0.5), candidate(120, 0.97, room=False), candidate(100, 0.94)
    assert order(*found) == [100, 90, 120]
    assert order() == []


def test_of_rates_within_a_hundredth_the_emptiest_comes_first() -> None:
    found = candidate(98, 0.3), candidate(99.5, 0.93), candidate(99.2, 0.91), candidate(100, 0.94)
    assert order(*found) == [99.2, 100, 99.5, 98]


def test_where_much_of_memory_is_free_the_fastest_comes_first() -> None:
    assert order(candidate(99.5, 0.1), candidate(100, 0.9)) == [100, 99.5]
    assert order(candidate(99.5, 0.1), candidate(100, 0.94), candidate(99.8, 0.9)) == [
        99.8,
        100,
        99.5,
    ]


def test_a_hundredth_of_a_tile_is_worth_more_than_less_of_it() -> None:
    assert order(candidate(100, 0.931), candidate(99.5, 0.929)) == [100, 99.5]


def test_without_room_the_emptiest_of_a_tie_comes_first_too() -> None:
    assert order(candidate(100, 0.99, room=False), candidate(99.9, 0.96, room=False)) == [99.9, 100]


def test_what_is_sure_to_fit_does_so_at_the_end_of_the_belief() -> None:
    assert SURE * TABLE["tile_imbalance"].high <= 1.0
