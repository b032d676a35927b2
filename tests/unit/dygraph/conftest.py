"""Dynamic mode with the plugin active; afterwards layers run on the CPU again."""

from __future__ import annotations

from collections.abc import Iterator

import paddle
import pytest

import paddle_ipu


@pytest.fixture(autouse=True)
def on_the_cpu_afterwards() -> Iterator[None]:
    paddle_ipu.activate()
    paddle.disable_static()
    yield
    paddle.base.compiler.IpuDynamicPatcher.release_patch()
