"""The batching runner over a plain function: who gets what, when, and what else can happen."""

from __future__ import annotations

import gc
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.errors import (
    FeedError,
    OptionError,
    QueueFullError,
    RequestTimeoutError,
    ServingError,
)
from paddle_ipu.serving import BatchingRunner
from paddle_ipu.serving.request import Request

Array = np.ndarray[Any, Any]
Feed = Mapping[str, Array]
INPUTS = {"x": ([3], "float32"), "n": ([], "int64")}
LONG = 60_000.0
"""Milliseconds: batches that do not fill up never go."""


def told_apart(feed: Feed) -> dict[str, Array]:
    """Answers that show which row they are of."""
    return {"sum": feed["x"].sum(axis=1) + feed["n"], "both": feed["x"] * feed["n"][:, None]}


def request(rows: int, mark: float = 1.0) -> dict[str, Array]:
    x = np.arange(3 * rows, dtype="float32").reshape(rows, 3) + np.float32(mark)
    return {"x": x, "n": np.arange(rows) + int(mark)}


class Gate:
    """A model that waits at a gate, and remembers what it was called with."""

    def __init__(self, is_open: bool = True) -> None:
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self.calls: list[dict[str, Array]] = []
        if is_open:
            self.open.set()

    def __call__(self, feed: Feed) -> dict[str, Array]:
        self.calls.append({name: array.copy() for name, array in feed.items()})
        self.entered.release()
        assert self.open.wait(20)
        return told_apart(feed)


def serve(model: Any, micro_batch: int = 4, **options: Any) -> BatchingRunner:
    return BatchingRunner(
        model, micro_batch=micro_batch, inputs=INPUTS, **{"timeout_ms": 1.0, **options}
    )


def assert_answers(answer: Mapping[str, Array], feed: Feed) -> None:
    expected = told_apart(feed)
    assert answer.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(answer[name], array, strict=True)


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not true():
        assert time.monotonic() < ends, "it never became true"
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    if not set(threading.enumerate()) <= before:
        gc.collect()
    until(lambda: set(threading.enumerate()) <= before)


# -- batches --------------------------------------------------------------------------------------


def test_requests_fill_a_micro_batch_and_get_their_own_rows() -> None:
    model = Gate()
    with serve(model, timeout_ms=LONG) as runner:
        feeds = [request(1, 10), request(2, 20), request(1, 30)]
        futures = [runner.submit(feed) for feed in feeds]
        for future, feed in zip(futures, feeds, strict=True):
            assert_answers(future.result(20), feed)
    (call,) = model.calls
    np.testing.assert_array_equal(call["n"], [10, 20, 21, 30])


def test_what_does_not_fill_up_goes_when_its_time_is_over_padded_with_a_row_of_its_own() -> None:
    model = Gate()
    with serve(model, timeout_ms=30) as runner:
        start = time.monotonic()
        assert_answers(runner.run(request(2, 5)), request(2, 5))
        assert time.monotonic() - start >= 0.03
    (call,) = model.calls
    np.testing.assert_array_equal(call["n"], [5, 6, 6, 6])


@pytest.mark.parametrize("rows", [4, 5, 8, 11])
def test_a_request_larger_than_the_micro_batch_is_spread_over_several(rows: int) -> None:
    model = Gate()
    with serve(model) as runner:
        assert_answers(runner.run(request(rows)), request(rows))
    assert len(model.calls) == -(-rows // 4)


def test_without_a_timeout_requests_that_came_meanwhile_share_a_batch() -> None:
    model = Gate(is_open=False)
    with serve(model, timeout_ms=0) as runner:
        first = runner.submit(request(1))
        model.entered.acquire()
        rest = [runner.submit(request(1, mark)) for mark in (2, 3, 4)]
        model.open.set()
        for mark, future in enumerate([first, *rest], start=1):
            assert_answers(future.result(20), request(1, mark))
    assert len(model.calls) == 2


def test_a_submitted_feed_may_be_written_to() -> None:
    with serve(told_apart, timeout_ms=30) as runner:
        feed = request(2)
        future = runner.submit(feed)
        feed["x"][:] = 0
        assert_answers(future.result(20), request(2))


def test_an_answer_is_the_callers_own() -> None:
    held = np.zeros((4, 3), "float32")

    def reusing(feed: Feed) -> dict[str, Array]:
        np.copyto(held, feed["x"])
        return {"y": held}

    with serve(reusing) as runner:
        first = runner.run(request(4, 1))
        first["y"] += 0
        runner.run(request(4, 50))
        np.testing.assert_array_equal(first["y"], request(4, 1)["x"])


def test_a_function_may_return_the_same_array_again() -> None:
    answer = np.zeros(1, "float32")

    def reused(feed: Feed) -> dict[str, Array]:
        answer[:] = feed["x"][:, 0]
        return {"y": answer}

    marks = list(range(400))
    with serve(reused, micro_batch=1) as runner, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda mark: runner.run(request(1, mark))["y"], marks))
    np.testing.assert_array_equal(np.concatenate(answers), marks)


def test_the_model_goes_on_while_an_answer_is_received() -> None:
    received = threading.Event()
    with serve(told_apart, micro_batch=1) as runner:
        future = runner.submit(request(1))
        future.add_done_callback(lambda _: received.wait(20))
        assert_answers(runner.run(request(1, 5), timeout=20), request(1, 5))
        received.set()


def test_some_outputs_only() -> None:
    with serve(told_apart) as runner:
        assert list(runner.run(request(1), outputs=["sum"])) == ["sum"]
        with pytest.raises(ServingError, match="'z' is unknown: the model gave 'sum', 'both'"):
            runner.run(request(1), outputs=["z"])
        assert_answers(runner.run(request(1)), request(1))


def test_an_output_that_no_row_changes_is_everybodys() -> None:
    def labelled(feed: Feed) -> dict[str, Array]:
        return {"y": feed["n"] + 1, "labels": np.arange(7)}

    with serve(labelled, shared_outputs=["labels"]) as runner:
        for rows in (1, 6):
            answer = runner.run(request(rows))
            np.testing.assert_array_equal(answer["labels"], np.arange(7))
            np.testing.assert_array_equal(answer["y"], request(rows)["n"] + 1)


def test_python_lists_are_taken_and_safe_conversions_made() -> None:
    with serve(told_apart) as runner:
        answer = runner.run({"x": [[1, 2, 3]], "n": np.array([4], "int32")})
        np.testing.assert_array_equal(answer["sum"], [10.0])


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(1, 6),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.2]),
)
def test_whatever_the_requests_each_gets_its_own(
    sizes: list[int], clients: int, micro_batch: int, timeout_ms: float
) -> None:
    with serve(told_apart, micro_batch, timeout_ms=timeout_ms, max_waiting=12) as runner:

        def ask(index: int) -> None:
            feed = request(sizes[index], 100 * index)
            answer = runner.run(feed) if index % 2 else runner.submit(feed).result(20)
            assert_answers(answer, feed)

        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(ask, range(len(sizes))))
        counts = runner.statistics()
    assert counts.answered == len(sizes)
    assert counts.rows == sum(sizes)
    assert counts.rows + counts.padding == counts.batches * micro_batch


@pytest.mark.thorough
def test_of_many_requests_none_is_lost_doubled_or_swapped() -> None:
    clients, each = 64, 1600
    seen: list[list[float]] = [[] for _ in range(clients)]
    with serve(told_apart, 32, timeout_ms=0.5) as runner:

        def ask(client: int) -> None:
            for turn in range(each):
                number = client * each + turn
                x = np.full((1, 3), number, "float32")
                answer = runner.run({"x": x, "n": np.array([number])}, outputs=["sum"])
                seen[client].append(float(answer["sum"][0]))

        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(ask, range(clients)))
        counts = runner.statistics()
    assert [n for numbers in seen for n in numbers] == [4.0 * n for n in range(clients * each)]
    assert counts.answered == counts.requests == clients * each


# -- too many, too late, not wanted any more -------------------------------------------------------


def test_a_full_line_refuses_or_holds_up() -> None:
    model = Gate(is_open=False)
    with serve(model, timeout_ms=0, max_waiting=3) as runner:
        runner.submit(request(1))
        model.entered.acquire()
        waiting = runner.submit(request(3))
        with pytest.raises(
            QueueFullError,
            match="3 rows wait for the model, and 3 may: a request of 1 has no room. Try again",
        ):
            runner.submit(request(1), block=False)
        with pytest.raises(RequestTimeoutError, match="found no room in its time: 3 rows wait"):
            runner.run(request(1), timeout=0.01)
        assert runner.statistics().refused == 2
        with ThreadPoolExecutor(1) as pool:
            held_up = pool.submit(runner.run, request(2, 7))
            time.sleep(0.02)
            assert not held_up.done()
            model.open.set()
            assert_answers(held_up.result(20), request(2, 7))
        assert_answers(waiting.result(20), request(3))


def test_a_request_larger_than_the_line_gets_in_when_nobody_waits() -> None:
    with serve(told_apart, max_waiting=2) as runner:
        assert_answers(runner.run(request(9)), request(9))


def test_a_deadline() -> None:
    model = Gate(is_open=False)
    with serve(model, timeout_ms=0) as runner:
        runner.submit(request(1))
        model.entered.acquire()
        with pytest.raises(RequestTimeoutError, match=r"no answer within 0.02 s; the request is"):
            runner.run(request(1), timeout=0.02)
        late = runner.submit(request(1), timeout=0.01)
        time.sleep(0.02)
        model.open.set()
        with pytest.raises(RequestTimeoutError, match=r"time of 0.01 s was over before its turn"):
            late.result(20)
        assert_answers(runner.run(request(2)), request(2))
        counts = runner.statistics()
    assert (counts.timed_out, counts.cancelled, counts.answered) == (1, 1, 2)
    # What nobody waits for is not computed.
    assert len(model.calls) == 2


@pytest.mark.parametrize("seconds", [1e12, 1e300, float("inf")])
def test_times_beyond_those_that_a_thread_can_wait_are_for_ever(seconds: float) -> None:
    runner = serve(told_apart, timeout_ms=min(seconds, 1e300))
    with ThreadPoolExecutor(4) as pool:
        feeds = [request(1, mark) for mark in range(4)]
        answers = pool.map(lambda feed: runner.run(feed, timeout=seconds), feeds)
        for answer, feed in zip(answers, feeds, strict=True):
            assert_answers(answer, feed)
    assert runner.close(timeout=seconds)


def test_a_request_with_a_deadline_does_not_wait_for_others_until_it_is_late() -> None:
    with serve(told_apart, timeout_ms=LONG) as runner:
        assert_answers(runner.run(request(1), timeout=0.4), request(1))


def test_a_cancelled_request_is_not_computed() -> None:
    model = Gate(is_open=False)
    with serve(model, timeout_ms=0) as runner:
        runner.submit(request(1))
        model.entered.acquire()
        cancelled, other = runner.submit(request(4, 7)), runner.submit(request(1, 9))
        assert cancelled.cancel()
        model.open.set()
        assert_answers(other.result(20), request(1, 9))
        with pytest.raises(CancelledError):
            cancelled.result(20)
        assert runner.statistics().cancelled == 1
    assert [call["n"][0] for call in model.calls] == [1, 9]


# -- errors ---------------------------------------------------------------------------------------


class RefusalError(Exception):
    """What a model may raise."""


def test_rows_of_a_request_that_failed_meanwhile_are_nobody_elses() -> None:
    failed, other = (Request(request(rows), rows, None, 0.0, LONG, LONG) for rows in (3, 1))
    failed.ended = True  # by the batch before, when these rows were in the next one already
    together = {
        name: np.concatenate([failed.arrays[name][1:], other.arrays[name]]) for name in INPUTS
    }
    with serve(told_apart) as runner:
        batcher = runner._batcher
        batcher._answer([(failed, 1, 2), (other, 0, 1)], told_apart(together))
    assert_answers(other.future.result(0), other.arrays)
    assert not failed.future.done()


def test_an_error_of_the_model_reaches_the_callers_of_its_batch_and_no_others() -> None:
    def refusing(feed: Feed) -> dict[str, Array]:
        if (feed["n"] < 0).any():
            raise RefusalError("a number below zero")
        return told_apart(feed)

    with serve(refusing, timeout_ms=LONG) as runner:
        bad = {"x": np.ones((2, 3), "float32"), "n": np.array([1, -1])}
        failing = [runner.submit(bad), runner.submit(request(2))]
        errors = [future.exception(20) for future in failing]
        assert all(isinstance(error, RefusalError) for error in errors)
        # Each thread writes its own traceback.
        assert errors[0] is not errors[1]
        assert errors[0].__traceback__ is not None
        assert_answers(runner.submit(request(4)).result(20), request(4))
        with pytest.raises(RefusalError, match="below zero"):
            runner.run({"x": np.ones((9, 3), "float32"), "n": np.arange(9) - 8})
        assert_answers(runner.run(request(4)), request(4))
        assert runner.statistics().failed == 3


def test_isolated_errors_fail_only_the_requests_that_make_them() -> None:
    calls: list[Array] = []

    def refusing(feed: Feed) -> dict[str, Array]:
        calls.append(feed["n"].copy())
        if (feed["n"] < 0).any():
            raise RefusalError("a number below zero")
        return told_apart(feed)

    with serve(refusing, timeout_ms=LONG, isolate_errors=True) as runner:
        bad = {"x": np.ones((1, 3), "float32"), "n": np.array([-1])}
        good, failing, other = (
            runner.submit(request(2)),
            runner.submit(bad),
            runner.submit(request(1)),
        )
        assert isinstance(failing.exception(20), RefusalError)
        assert_answers(good.result(20), request(2))
        assert_answers(other.result(20), request(1))
        counts = runner.statistics()
    assert (counts.failed, counts.answered, counts.batches, len(calls)) == (1, 2, 4, 4)


@pytest.mark.parametrize("shape", [(), (7, 4)])
def test_an_output_without_rows_is_refused(shape: tuple[int, ...]) -> None:
    def mixing(feed: Feed) -> dict[str, Array]:
        return {"mean": np.zeros(shape)}

    with (
        serve(mixing) as runner,
        pytest.raises(
            ServingError,
            match=r"output 'mean' has shape \[.*\], which does not begin with the 4 rows of the "
            "micro-batch, so nobody can tell .* Leave it out, .* name it in shared_outputs",
        ),
    ):
        runner.run(request(1))


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"x": np.ones((1, 3), "float32")}, "input 'n' is missing: the model has the inputs 'x', "),
        ([np.ones((1, 3))], "a request is a list, expected a dict of input name -> array"),
        ({**request(1), "z": 0}, "input 'z' is unknown: the model has the inputs 'x', 'n', and "),
        ({**request(1), "x": np.ones((1, 2), "float32")}, r"'x': got .* \[1, 2\], .* \[rows, 3\]"),
        ({**request(1), "x": np.float32(1)}, r"input 'x': got an array of shape \[\], expected"),
        ({**request(1), "x": np.ones((1, 3))}, "input 'x': got dtype float64, expected float32. C"),
        ({**request(1), "n": ["a"]}, "'n': got a list of strings, expected an array of int64"),
        ({**request(2), "n": np.arange(3)}, "differ in their number of rows: 'x' has 2, 'n' has 3"),
        (request(0), "the request has 0 rows: give at least one"),
    ],
)  # fmt: skip
def test_a_wrong_request(feed: dict[str, Any], message: str) -> None:
    with serve(told_apart) as runner:
        for ask in (runner.run, runner.submit):
            with pytest.raises(FeedError, match=message):
                ask(feed)
        assert_answers(runner.run(request(3)), request(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout_ms": -1}, "timeout_ms is -1, expected 0 or more"),
        ({"timeout_ms": "2"}, "timeout_ms is '2', expected 0 or more"),
        ({"timeout_ms": float("inf")}, "timeout_ms is inf"),
        ({"max_waiting": 0}, "max_waiting is 0, expected 1 or more"),
        ({"micro_batch": 0}, "micro_batch is 0, expected 1 or more"),
        ({"micro_batch": None}, "of a function, `inputs` and `micro_batch` have to be given"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        BatchingRunner(told_apart, **{"micro_batch": 4, "inputs": INPUTS, **options})


@pytest.mark.parametrize("inputs", [["x"], {"x": ([3], "float31")}, {"x": 3}])
def test_inputs_of_another_form(inputs: Any) -> None:
    with pytest.raises(
        OptionError, match=r"BatchingRunner: inputs is .*, expected a dict of input"
    ):
        BatchingRunner(told_apart, inputs=inputs, micro_batch=4)


def test_what_is_no_model() -> None:
    with pytest.raises(OptionError, match="the model is 'resnet', expected what IpuCompiledProg"):
        serve("resnet")
    with pytest.raises(ServingError, match="no inputs, so a request would have no rows"):
        BatchingRunner(told_apart, inputs={}, micro_batch=4)


# -- the end --------------------------------------------------------------------------------------


def _waiting(runner: BatchingRunner, model: Gate) -> tuple[Future[Any], Future[Any]]:
    running = runner.submit(request(4))
    model.entered.acquire()
    return running, runner.submit(request(1, 3))


def test_closing_answers_what_waits_and_takes_no_more() -> None:
    model = Gate(is_open=False)
    runner = serve(model, timeout_ms=LONG)
    running, waiting = _waiting(runner, model)
    threading.Timer(0.02, model.open.set).start()
    assert runner.close()
    assert not runner.is_open
    assert_answers(running.result(0), request(4))
    assert_answers(waiting.result(0), request(1, 3))
    for ask in (runner.run, runner.submit):
        with pytest.raises(ServingError, match="was shut down and takes no more requests"):
            ask(request(1))
    assert runner.close()


def test_abandoning_answers_the_running_batch_only() -> None:
    model = Gate(is_open=False)
    runner = serve(model, timeout_ms=LONG, max_waiting=1)
    running, waiting = _waiting(runner, model)
    with ThreadPoolExecutor(1) as pool:
        held_up = pool.submit(runner.run, request(1))
        time.sleep(0.01)
        threading.Timer(0.02, model.open.set).start()
        assert runner.close(drain=False)
        with pytest.raises(ServingError, match="shut down"):
            held_up.result(20)
    assert_answers(running.result(0), request(4))
    with pytest.raises(ServingError, match="was shut down before the request's turn came"):
        waiting.result(0)


def test_a_model_that_does_not_return_does_not_keep_close_from_returning() -> None:
    model = Gate(is_open=False)
    runner = serve(model)
    running, waiting = _waiting(runner, model)
    assert not runner.close(timeout=0.02)
    model.open.set()
    assert_answers(running.result(20), request(4))
    assert isinstance(waiting.exception(20), ServingError)


def test_an_error_in_the_block_abandons_what_waits() -> None:
    model = Gate(is_open=False)
    with pytest.raises(KeyError), serve(model, timeout_ms=LONG) as runner:
        _, waiting = _waiting(runner, model)
        threading.Timer(0.02, model.open.set).start()
        raise KeyError
    assert isinstance(waiting.exception(0), ServingError)


def test_a_runner_that_nobody_holds_ends_its_threads() -> None:
    runner = serve(told_apart)
    runner.run(request(1))
    assert any("serving" in thread.name for thread in threading.enumerate())
    del runner
    # The fixture sees whether the threads are gone.


def test_a_callback_may_close_the_runner() -> None:
    runner = serve(told_apart)
    closed = threading.Event()
    future = runner.submit(request(1))
    future.add_done_callback(lambda _: (runner.close(), closed.set()))
    assert closed.wait(20)


def test_a_fork_is_told_to_make_its_own(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        """
import os, sys
import numpy as np
from paddle_ipu.serving import BatchingRunner
from paddle_ipu.serving.request import Request
runner = BatchingRunner(lambda feed: {"y": feed["x"]}, micro_batch=2, inputs={"x": ([], "int64")})
runner.run({"x": [1]})
if os.fork() == 0:
    try:
        runner.run({"x": [1]})
    except Exception as error:
        print(error, file=sys.stderr)
    sys.stderr.flush()
    os._exit(0)
os.wait()
"""
    )
    assert "threads do not come along into a fork" in done.stderr


def test_statistics_of_many_answers() -> None:
    with serve(told_apart, micro_batch=1) as runner:
        for _ in range(1500):
            runner.run(request(1))
        counts = runner.statistics()
    assert counts.answered == sum(counts.latency_counts) == 1500
    assert 0 < 1500 * counts.latency[0] < 10 * counts.latency_sum


def test_statistics_are_readable() -> None:
    with serve(told_apart) as runner:
        runner.run(request(3))
        counts = runner.statistics()
    assert counts.fill == 0.75
    assert 0 < counts.latency[0] <= counts.latency[2] <= counts.latency_sum
    assert sum(counts.latency_counts) == 1
    assert "1 requests: 1 answered" in str(counts)
    assert "1 batches, 75.0 % full; 0 rows waiting" in str(counts)
