"""Runs of a program that changes nothing keep apart: one's results stay when the next one comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.unit.sessions.session_programs import B, Linear, W, X, infer


def test_a_feed_that_is_a_result_is_the_callers_own() -> None:
    program = Linear()
    same = program.builder.aiOnnx.identity(["x"])
    program.builder.addOutputTensor(same)
    session = infer(program.builder.model, {same: "All"})
    result = session.runArrays({"x": X})[same]
    session.runArrays({"x": X + 1})
    np.testing.assert_array_equal(result, X)


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
