"""The search of `make fuzz KIND=operators`, at a fixed seed: nothing that is not explained."""

from __future__ import annotations

import pytest

from tests.differential.operators.explore import explore

pytestmark = pytest.mark.newest
SEED = 22
PROGRAMS = 70
CASES = 2000


@pytest.mark.long
def test_programs_of_a_fixed_seed() -> None:
    tally = explore(PROGRAMS, SEED)
    assert [f"{finding.title}\n{finding.detail}" for finding in tally.findings] == []
    assert tally.cases >= CASES
    assert tally.outcomes["agrees"] > CASES / 2
