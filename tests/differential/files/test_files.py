"""Files of a fixed seed, and the tools that damage them."""

from __future__ import annotations

import zlib  # noqa: F401 - before paddle 2.6, which brings another one along

import pytest

from tests.differential.files import cases
from tests.differential.files.explore import explore
from tests.differential.files.kinds import KINDS

pytestmark = pytest.mark.newest
CASES = 250


def test_files_of_a_fixed_seed() -> None:
    tally = explore(CASES, 22)
    assert [finding.detail for finding in tally.findings] == []
    assert tally.cases == CASES
    assert set(tally.outcomes) == {"read", "refused"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_file_is_made_by_its_number_alone(kind: cases.Kind) -> None:
    numbers = [n for n in range(200) if cases.make(5, n).kind is kind][:6]
    made = [cases.make(5, number).damaged().content for number in numbers]
    again = [cases.make(5, number).damaged().content for number in reversed(numbers)]
    assert made == again[::-1]
    sound = {content for content, _ in kind.sound().values()}
    assert numbers
    assert not sound.issuperset(made)
