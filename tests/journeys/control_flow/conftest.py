"""Static mode for every test of control flow."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _static(static_mode: None) -> None:
    pass
