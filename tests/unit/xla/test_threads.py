"""Work that follows work is done, whichever thread does it and whoever asks for it."""

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
    """Each piece of work follows the one before in microseconds; callers share the threads."""
    monkeypatch.setattr(library, "threads", lambda: sharing)
    columns = 1 << 17
    rows = [np.full((1, columns), row, np.float32) for row in range(10)]

    def step(first: jax.Array, *others: jax.Array) -> jax.Array:
        for other in others:
            first = joined((first, other), 0)
        return first

    compiled = jax.jit(step).lower(*rows).compile()
    wrong: list[tuple[int, int]] = []

    def call(caller: int) -> None:
        for time in range(30):
            given = [row + np.float32(100 * caller + time) for row in rows]
            if not np.array_equal(np.asarray(compiled(*given)), np.concatenate(given)):
                wrong.append((caller, time))

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
