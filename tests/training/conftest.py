"""Every test here builds static programs with the plugin active."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    """Static mode with the plugin active; the mode is put back."""
    import paddle

    import paddle_ipu

    paddle_ipu.activate()
    was_dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    yield
    if was_dynamic:
        paddle.disable_static()
