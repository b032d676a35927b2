"""Fixtures for tests of more than one package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.pages.browser import browser


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that the tests of a module share."""
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found
