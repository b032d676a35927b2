"""Threads that wait for answers wake each other, whoever of them has gone."""

from __future__ import annotations

import threading
import time

import pytest

from paddle_ipu.serving import sleepers as module
from paddle_ipu.serving.sleepers import Sleeper, Sleepers

LONG = 20.0


def _woken(sleepers: list[Sleeper]) -> int:
    """How many wake up now, of threads that each wait in the order given."""
    return sum(sleeper.sleep(0.0) for sleeper in sleepers)


def test_every_thread_wakes_up() -> None:
    row, together = [Sleeper() for _ in range(20)], Sleepers()
    woken: list[bool] = []
    threads = [
        threading.Thread(target=lambda s=sleeper: woken.append(s.sleep(LONG))) for sleeper in row
    ]
    for thread in threads:
        thread.start()
    together.wake(row[:7])
    together.wake(row[7:])
    for thread in threads:
        thread.join(LONG)
    assert woken == [True] * 20


def test_no_thread_wakes_before_its_turn() -> None:
    first, second, third = row = [Sleeper() for _ in range(3)]
    Sleepers().wake(row)
    assert not second.sleep(0.0)
    assert first.sleep(0.0)
    # Nobody waits for the second any more; its turn goes on to the third.
    assert third.sleep(0.0)


def test_threads_of_a_later_call_wake_after_those_before() -> None:
    together, row = Sleepers(), [Sleeper() for _ in range(4)]
    together.wake(row[:2])
    together.wake(row[2:])
    assert not row[3].sleep(0.0)
    assert _woken(row[:3]) == 3
    late = Sleeper()
    together.wake([late])
    # All others are awake or gone.
    assert late.sleep(0.0)


def test_nobody_to_wake_changes_nothing() -> None:
    together, sleeper = Sleepers(), Sleeper()
    together.wake([])
    assert not together.are_left(0)
    together.wake([sleeper])
    together.wake([])
    assert together.are_left(1)
    assert sleeper.sleep(0.0)


def test_how_many_are_left() -> None:
    together, row = Sleepers(), [Sleeper() for _ in range(3)]
    together.wake(row)
    assert together.are_left(3)
    assert not together.are_left(4)
    assert row[0].sleep(0.0)
    assert not together.are_left(3)
    assert together.are_left(2)
    assert _woken(row[1:]) == 2
    assert not together.are_left(0)


def test_threads_that_wait_for_the_interpreter_wait_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SLOW", 0.0)
    row = [Sleeper() for _ in range(5)]
    Sleepers().wake(row)
    time.sleep(0.001)
    assert row[0].sleep(0.0)
    # The last one too, though those between have not gone on.
    assert row[4].sleep(0.0)
    assert _woken(row[1:4]) == 3


class Raising:
    """A lock whose waiting thread is interrupted."""

    def __init__(self, lock: threading.Lock, is_held: bool) -> None:
        self._lock = lock
        self._is_held = is_held

    def acquire(self, timeout: float) -> bool:
        if self._is_held:
            self._lock.acquire(timeout=timeout)
        raise KeyboardInterrupt

    def release(self) -> None:
        self._lock.release()


@pytest.mark.parametrize("moment", ["before", "after", "awake"])
def test_a_thread_that_is_interrupted_hands_its_turn_on(moment: str) -> None:
    interrupted, following = row = [Sleeper(), Sleeper()]
    interrupted._lock = Raising(interrupted._lock, moment == "awake")  # type: ignore[assignment]
    if moment != "before":
        Sleepers().wake(row)
    with pytest.raises(KeyboardInterrupt):
        interrupted.sleep(0.0)
    if moment == "before":
        Sleepers().wake(row)
    assert following.sleep(0.0)
