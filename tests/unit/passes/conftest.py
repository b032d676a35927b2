"""Fixtures for passes: a static program, read and put into a compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.frontend import programs
from paddle_ipu.passes.pass_base import Compilation


@pytest.fixture
def compilation_of(static_program: Any) -> Callable[..., Compilation]:
    """Reads the program under construction; keyword arguments are options of the strategy."""

    def read(feeds: Sequence[str], fetches: Sequence[Any], **options: Any) -> Compilation:
        import paddle

        strategy = paddle.static.IpuStrategy()
        strategy.set_options({"is_training": False, **options})
        names = [item if isinstance(item, str) else name_of(item) for item in fetches]
        graph = programs.read(static_program)
        return Compilation(graph, list(feeds), names, strategy._ipu_strategy.snapshot())

    return read


@pytest.fixture
def op_types() -> Callable[[Compilation], list[str]]:
    """The types of a compilation's nodes, in order."""
    return lambda compilation: [str(node.op_type) for node in compilation.graph]
