"""How the tests of bad input ask for an error: its type, its words, and that nothing changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import (
    PaddleIpuError,
)
from tests.journeys.training.side_by_side import (
    Built,
    initialised,
    rows_to_ask_for,
    snapshot,
    strategy,
    variables,
)


def refused(
    error: type[PaddleIpuError],
    message: str,
    built: Built,
    options: Mapping[str, Any] | None = None,
    *,
    feeds: Sequence[Any] | None = None,
    fetches: Sequence[Any] | None = None,
    scope: Any = None,
    **config: Any,
) -> str:
    """Compiles what must be refused; program and scope stay as they were. Gives the message."""
    scope = initialised(built) if scope is None else scope
    wanted = [value if isinstance(value, str) else value.name for value in built.fetches]
    held = [name for name in variables(built.main) if scope.find_var(name) is not None]
    text, before = str(built.main), snapshot(scope, held)
    config = {"micro_batch_size": rows_to_ask_for(built), **config}
    compiler = paddle.static.IpuCompiledProgram(built.main, scope, strategy(options, **config))
    with pytest.raises(error, match=message) as caught:
        compiler.compile(built.feeds if feeds is None else feeds, fetches or wanted)
    assert type(caught.value) is error
    assert str(built.main) == text
    for name, array in before.items():
        np.testing.assert_array_equal(np.array(scope.find_var(name).get_tensor()), array)
    return str(caught.value)
