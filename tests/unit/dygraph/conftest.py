"""Dynamic mode with the plugin active."""

from __future__ import annotations

import paddle
import pytest

import paddle_ipu


@pytest.fixture(autouse=True)
def dynamic_mode() -> None:
    """For every test of the folder; afterwards layers run on the CPU again, as everywhere."""
    paddle_ipu.activate()
    paddle.disable_static()
