"""Threads that wait for answers wake each other, whoever of them has gone."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from paddle_ipu.serving.request import Promised, WaitedFor, answer_all


def _waiting(deadline: float = math.inf) -> WaitedFor:
    return _answered(WaitedFor({"x": np.ones((1, 1))}, 1, None, 0.0, deadline, 1.0))


def _answered(request: WaitedFor) -> WaitedFor:
    request.parts = {"y": np.array([id(request)])}
    return request


def _check(request: WaitedFor) -> None:
    assert request.wait(-1)
    assert request.result()["y"] == id(request)


def test_each_thread_gets_its_own_answer() -> None:
    requests = [_waiting() for _ in range(20)]
    threads = [threading.Thread(target=_check, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    answer_all(requests)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_no_thread_wakes_before_its_turn() -> None:
    first, second, third = requests = [_waiting() for _ in range(3)]
    answer_all(requests)
    assert not second.wait(0.0)
    _check(first)
    # Nobody waits for the second any more; its turn goes on to the third.
    _check(third)


class Interrupted(WaitedFor):
    """Its thread is interrupted while it waits."""

    __slots__ = ()

    def wait(self, seconds: float) -> bool:
        lock, self._done = self._done, _Raising(self._done)  # type: ignore[assignment]
        try:
            return super().wait(seconds)
        finally:
            self._done = lock


class _Raising:
    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            raise KeyboardInterrupt
        return self._lock.acquire(False)


@pytest.mark.parametrize("is_late", [False, True], ids=["before the answer", "after it"])
def test_a_thread_that_is_interrupted_hands_its_turn_on(is_late: bool) -> None:
    request = _answered(Interrupted({"x": np.ones((1, 1))}, 1, None, 0.0, math.inf, 1.0))
    following = _waiting()
    if is_late:
        answer_all([request, following])
    with pytest.raises(KeyboardInterrupt):
        request.wait(-1)
    if not is_late:
        answer_all([request, following])
    _check(following)


def test_requests_with_a_limit_and_futures_wait_for_nobody() -> None:
    first, limited = _waiting(), _waiting(deadline=5.0)
    promised = Promised({"x": np.ones((1, 1))}, 1, None, 0.0, math.inf, 1.0)
    promised.parts = {"y": np.array([1])}
    answer_all([first, limited, promised])
    assert limited.wait(0.0)
    assert limited.result()["y"] == id(limited)
    assert promised.future.result(0)["y"] == 1
    _check(first)
