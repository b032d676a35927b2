"""Every test here builds static programs with the plugin active."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def static(static_mode: None) -> None:
    """Static mode for every test of the folder."""
