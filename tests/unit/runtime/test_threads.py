"""Threads that run one compiled program: none of its runs is lost, those that train take turns."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import paddle
import pytest

from paddle_ipu.runtime.ipu_backend import IpuBackend, last_program_stays
from paddle_ipu.runtime.shared_lock import SharedLock
from paddle_ipu.runtime.weights.owner import owners
from tests.journeys.training.side_by_side import mlp, pair, rows, strategy

THREADS, RUNS = 4, 25

pytestmark = pytest.mark.usefixtures("static_mode")


def test_runs_of_several_threads_follow_one_another() -> None:
    both = pair(mlp(lambda rate: paddle.optimizer.Momentum(rate, 0.9)))
    feed = rows(4)
    for _ in range(THREADS * RUNS):
        both.on_cpu(feed)

    def train(_: int) -> None:
        for _ in range(RUNS):
            both.program.run(feed, both.built.fetches)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(train, range(THREADS)))
    assert both.program.report().steps == THREADS * RUNS
    both.assert_equal_weights(1e-4)


def test_threads_that_only_read_weights_have_those_that_were_trained() -> None:
    both = pair(mlp(lambda rate: paddle.optimizer.Momentum(rate, 0.9)))
    compiler = paddle.static.IpuCompiledProgram(
        both.built.main, both.ipu, strategy(is_training=False)
    )
    testing = compiler.compile(both.built.feeds, both.built.fetches)
    feed = rows(4)
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(3):
            both.step(feed)
            answers = pool.map(lambda _: testing.run(feed, both.built.fetches)[0], range(RUNS))
            (expected, _) = both.on_cpu(feed)
            for answer in answers:
                np.testing.assert_allclose(answer, expected, rtol=1e-5)
            both.on_ipu(feed)
    assert testing.report().steps == 3 * RUNS


def test_a_turn_alone_waits_for_others_and_comes_before_later_ones() -> None:
    lock, inside, order = SharedLock(), threading.Barrier(3, timeout=10), list[str]()
    let_go, is_waiting = threading.Event(), threading.Event()

    def together() -> None:
        with lock.hold(lambda: True) as is_alone:
            assert not is_alone
            inside.wait()
            assert let_go.wait(10)
            order.append("together")

    def refused() -> bool:
        is_waiting.set()
        return False

    def alone() -> None:
        with lock.hold(refused) as is_alone:
            assert is_alone
            order.append("alone")

    def later() -> None:
        with lock.hold(lambda: True):
            order.append("later")

    with ThreadPoolExecutor(4) as pool:
        first = [pool.submit(together) for _ in range(2)]
        inside.wait()
        first.append(pool.submit(alone))
        assert is_waiting.wait(10)
        while not lock._waiting_exclusive:
            threading.Event().wait(0.001)
        first.append(pool.submit(later))
        let_go.set()
        for each in first:
            each.result(10)
    assert order == ["together", "together", "alone", "later"]


def test_an_error_ends_a_turn() -> None:
    lock = SharedLock()
    for together in (True, False):
        with pytest.raises(ValueError), lock.hold(lambda kind=together: kind):  # type: ignore[misc]
            raise ValueError
    with lock.hold(lambda: False) as is_alone:
        assert is_alone


def _attached() -> IpuBackend:
    backend = IpuBackend()
    backend.attach(None, object(), None, None, None, {}, {}, changes=False, early=None)
    return backend


def test_programs_come_and_go_while_another_thread_looks_at_them() -> None:
    interval, ends = sys.getswitchinterval(), time.monotonic() + 0.3

    def come_and_go() -> None:
        while time.monotonic() < ends:
            assert len([_attached() for _ in range(20)]) == 20

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(come_and_go)
            while not coming.done():
                owners()
            coming.result()
    finally:
        sys.setswitchinterval(interval)


def test_what_another_thread_compiles_meanwhile_is_the_last_program() -> None:
    with last_program_stays():
        beside = _attached()
        with ThreadPoolExecutor(1) as pool:
            last = pool.submit(_attached).result()
    found = IpuBackend.get_instance()._backend()
    assert found is last and found is not beside
