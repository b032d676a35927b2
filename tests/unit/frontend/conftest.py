"""A small ProgramDesc under construction, for the tests of its reader."""

from __future__ import annotations

import pytest

from tests.unit.frontend.desc_builder import DescBuilder


@pytest.fixture
def builder() -> DescBuilder:
    built = DescBuilder()
    built.variable("x", is_feed=True)
    built.variable("w", (3, 4), persistable=True, is_parameter=True)
    built.variable("y")
    return built
