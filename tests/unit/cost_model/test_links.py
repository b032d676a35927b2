"""Which links a copy between IPUs takes, and what a ring gets of them, by hand."""

from __future__ import annotations

import pytest

from paddle_ipu.cost_model.links import copy_cycles, ring_rate
from paddle_ipu.cost_model.machines import PROCESSORS

GC200 = PROCESSORS["GC200"]
TWO_LINKS = 32e9 * 0.85


def cycles(sent: dict[tuple[int, int], float]) -> float:
    return copy_cycles(sent, GC200)


@pytest.mark.parametrize(
    ("ends", "links"), [((0, 1), 4), ((0, 2), 2), ((2, 0), 2), ((1, 2), 2), ((0, 6), 2)]
)
def test_a_pair_has_four_links_and_others_two(ends: tuple[int, int], links: int) -> None:
    assert cycles({ends: 1e6}) == pytest.approx(1e6 / (links / 2 * TWO_LINKS) * 1.33e9)


def test_both_directions_and_other_rails_are_free_at_once() -> None:
    alone = cycles({(0, 2): 1e6})
    assert cycles({(0, 2): 1e6, (2, 0): 1e6, (1, 3): 1e6}) == alone


def test_copies_over_the_same_links_wait_for_one_another() -> None:
    assert cycles({(0, 4): 1e6, (2, 4): 1e6}) == pytest.approx(2 * cycles({(2, 4): 1e6}))
    assert cycles({}) == 0


def test_the_ipus_of_a_replica_share_the_rails() -> None:
    rates = [ring_rate(GC200, ipus) / TWO_LINKS for ipus in (1, 2, 4, 8)]
    assert rates == pytest.approx([2, 2, 1, 0.5])
