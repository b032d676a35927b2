"""Waiting without going to sleep: until called, until the time is over, or not at all."""

from __future__ import annotations

import threading
import time

import pytest

from paddle_ipu.instances.awake import Watch
from paddle_ipu.xla.kernels import library

needs_kernels = pytest.mark.skipif(
    library.version() is None or library.threads() < 2,
    reason=f"no compiled kernels, or one processor: {library.why_not()}",
)


@needs_kernels
def test_a_call_before_or_while_waiting_ends_it() -> None:
    watch = Watch()
    watch.call()
    assert watch.wait(20.0)
    watch.reset()
    thread = threading.Timer(0.01, watch.call)
    thread.start()
    # Others may push it aside now and then.
    ends = time.monotonic() + 20
    while not watch.wait(20.0):
        assert time.monotonic() < ends
    thread.join()


@needs_kernels
def test_python_goes_on_meanwhile_and_the_wait_ends() -> None:
    watch, waited = Watch(), []
    thread = threading.Thread(target=lambda: waited.append(watch.wait(0.05)))
    thread.start()
    thread.join(20)
    assert waited == [False]


def test_without_the_kernels_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "look", None)
    watch = Watch()
    watch.call()
    assert not watch.wait(20.0)
