"""Small feeds are copied into arrays that stay; a run's results stay when the next one comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from paddle_ipu.xla.step.feed_staging import FeedRoom
from tests.unit.sessions.session_programs import B, Linear, W, X, infer


def test_arguments_are_what_was_fed_last() -> None:
    room = FeedRoom({"few": ((2, 1), "int32"), "one": ((), "float32"), "many": ((9999,), "int32")})
    for at in range(3):
        feeds: dict[str, Any] = {
            "few": np.full((2, 1), at, np.int32),
            "one": np.asarray(at, np.float32),
            "many": np.arange(9999, dtype=np.int32) + at,
        }
        room.fill(feeds)
        assert room.arguments.keys() == feeds.keys()
        for name, array in feeds.items():
            found = np.asarray(room.arguments[name])
            assert (found.shape, found.dtype) == (array.shape, array.dtype)
            np.testing.assert_array_equal(found, array)


def test_feeds_of_another_dtype_are_refused() -> None:
    room = FeedRoom({"x": ((2,), "int32")})
    with pytest.raises(TypeError, match="Cannot cast"):
        room.fill({"x": np.zeros(2, np.int64)})


def test_a_feed_that_is_a_result_is_the_callers_own() -> None:
    program = Linear()
    same = program.builder.aiOnnx.identity(["x"])
    program.builder.addOutputTensor(same)
    session = infer(program.builder.model, {same: "All"})
    found = session.runArrays({"x": X}, copied=False)[same]
    session.runArrays({"x": X + 1})
    np.testing.assert_array_equal(found, X)


def test_threads_do_not_see_each_others_feeds() -> None:
    program = Linear()
    session = infer(program.builder.model, {program.out: "All"})

    def runs(number: int) -> None:
        x = X + number
        for _ in range(200):
            np.testing.assert_allclose(
                session.runArrays({"x": x})[program.out], x @ W + B, rtol=1e-5
            )

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(runs, range(4)))
