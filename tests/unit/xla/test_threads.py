"""Work that follows work is done by threads that stay awake, once, whoever asks for it."""

from __future__ import annotations

import threading
from typing import Any

import jax
import numpy as np
import pytest

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.concatenation import joined

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    library.version() is None, reason=f"no kernel here: {library.why_not()}"
)


@pytest.mark.parametrize("sharing", [2, 4])
@pytest.mark.parametrize("callers", [1, 4])
def test_rows_of_small_work_of_several_callers(
    sharing: int, callers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More threads share a piece of work than XLA has, or fewer; callers take one another's."""
    monkeypatch.setattr(library, "threads", lambda: sharing)
    columns = 1 << 19
    rows = [np.full((1, columns), row, np.float32) for row in range(6)]

    def step(first: jax.Array, *others: jax.Array) -> jax.Array:
        for other in others:
            first = joined((first[-1:], other), 0)
        return first

    compiled = jax.jit(step).lower(*rows).compile()
    wrong: list[tuple[int, float]] = []

    def call(caller: int) -> None:
        given = [row + 10 * caller for row in rows]
        expected = np.concatenate(given[-2:])
        for _ in range(30):
            found = np.asarray(compiled(*given))
            if not np.array_equal(found, expected):
                wrong.append((caller, float(np.abs(found - expected).max())))

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
