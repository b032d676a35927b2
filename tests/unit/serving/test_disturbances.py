"""What comes between a batching runner's lines: Ctrl-C anywhere, callbacks that raise."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from paddle_ipu.errors import UnknownOutputError
from paddle_ipu.serving import BatchingRunner

Array = np.ndarray[Any, Any]
LONG = 20.0
ROW = {"x": np.ones((1, 1), "float32")}


def doubled(feed: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": 2 * feed["x"]}


def serve(model: Any = doubled, **options: Any) -> BatchingRunner:
    options = {"micro_batch": 2, "timeout_ms": 1.0, **options}
    return BatchingRunner(model, inputs={"x": ([1], "float32")}, **options)


@contextmanager
def interrupted_at(moment: int) -> Iterator[None]:
    """Has KeyboardInterrupt raised where a signal's handler is called: as a function begins, or
    behind a call of C; the first of them is 0. What it does to Python's own threads and finalizers
    is Python's."""
    left = moment

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        code = frame.f_code
        is_ours = "paddle_ipu/serving" in code.co_filename or code.co_qualname.startswith(
            "Condition.notify"
        )
        if is_ours and event in ("call", "c_return"):
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("is_first", [True, False])
def test_wherever_ctrl_c_comes_others_are_answered(is_first: bool) -> None:
    moment, came = 0, True
    while came:
        came = False
        runner = serve()
        if not is_first:
            runner.run(ROW)
        try:
            with interrupted_at(moment):
                runner.run(ROW)
        except KeyboardInterrupt:
            came = True
        answers: list[Array] = []
        thread = threading.Thread(
            target=lambda own=runner, to=answers: to.append(own.run(ROW)["y"]), daemon=True
        )
        thread.start()
        thread.join(LONG)
        assert len(answers) == 1, f"nobody was woken after Ctrl-C at {moment}"
        assert runner.close(timeout=LONG)
        counted = runner.statistics()
        assert counted.waiting == 0
        assert counted.requests == counted.answered + counted.cancelled
        moment += 1
    assert moment > 10


def test_a_callback_that_raises_keeps_no_answer_from_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave(_: Future[Any]) -> None:
        raise SystemExit(1)

    with serve(timeout_ms=60_000.0) as runner, caplog.at_level(logging.ERROR, "paddle_ipu"):
        for _ in range(4):
            leaving = runner.submit(ROW)
            leaving.add_done_callback(leave)
            other = runner.submit(ROW)
            assert other.result(LONG)["y"] == 2
            assert leaving.result(LONG)["y"] == 2
        foreign, waiting = runner.submit(ROW), []
        foreign.set_result({})
        thread = threading.Thread(target=lambda: waiting.append(runner.run(ROW)), daemon=True)
        thread.start()
        thread.join(LONG)
        assert waiting[0]["y"] == 2
    assert "a callback of it, did not take its end" in caplog.text


def test_a_request_that_failed_is_not_counted_as_abandoned_too() -> None:
    second, go_on = threading.Event(), threading.Event()
    calls: list[int] = []

    def gated(feed: Mapping[str, Array]) -> dict[str, Array]:
        calls.append(len(calls))
        if len(calls) == 2:
            second.set()
            assert go_on.wait(LONG)
        return doubled(feed)

    class Unknown(list[str]):
        def __iter__(self) -> Iterator[str]:
            # The first part is answered while the model computes the second, and the third waits.
            assert second.wait(LONG)
            yield "z"

    runner = serve(gated)
    large = runner.submit({"x": np.ones((6, 1), "float32")}, outputs=Unknown())
    with pytest.raises(UnknownOutputError, match="'z' is unknown"):
        large.result(LONG)
    closed: list[bool] = []
    closing = threading.Thread(target=lambda: closed.append(runner.close(drain=False)))
    closing.start()
    closing.join(0.05)
    go_on.set()
    closing.join(LONG)
    assert closed == [True]
    counted = runner.statistics()
    assert (counted.requests, counted.failed, counted.cancelled) == (1, 1, 0)
