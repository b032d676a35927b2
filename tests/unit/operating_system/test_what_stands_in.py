"""What is asked of the system, and what is answered where it has no answer."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from pathlib import Path

import pytest

from paddle_ipu.operating_system import (
    c_library,
    process_memory,
    processes,
    processors,
    users,
)


def test_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 4, 6}, raising=False)
    assert processors.usable() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "process_cpu_count", lambda: 5, raising=False)
    assert processors.usable() == 5
    monkeypatch.delattr(os, "process_cpu_count")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert processors.usable() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors.usable() == 1


def test_functions_of_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    absolute = c_library.function("labs", ctypes.c_long, ctypes.c_long)
    assert absolute is not None and absolute(-(2**40)) == 2**40
    assert c_library.function("no_such_function", None) is None

    def refuse(name: str | None) -> None:
        raise TypeError("LoadLibrary() argument 1 must be str, not None")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert c_library.function("labs", ctypes.c_long, ctypes.c_long) is None
    assert not process_memory.limit_heaps(2) and not process_memory.keep_freed()
    process_memory.give_back_freed()
    process_memory.make_room(1 << 20)
    processes.end_with_parent()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system has no /proc")
def test_resident_memory_grows_with_pages_that_are_written() -> None:
    before = process_memory.resident_bytes()
    block = process_memory.new_pages(64 << 20)
    block.write(b"x" * len(block))
    after = process_memory.resident_bytes()
    assert before is not None and after is not None
    assert after - before > 48 << 20


def test_new_pages_are_zeros_without_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAP_PRIVATE", "MAP_ANONYMOUS", "MADV_HUGEPAGE"):
        monkeypatch.delattr(mmap, name, raising=False)
        assert process_memory.new_pages(100)[:] == bytes(100)


def test_owners_and_modes() -> None:
    me = os.geteuid()
    assert users.this_user() == me and users.is_this_user(me)
    assert not users.is_this_user(me + 1)
    assert users.is_this_user_or_root(0) and users.is_this_user_or_root(me)
    assert not users.is_this_user_or_root(me + 1)
    assert users.others_write(0o620) and users.others_write(0o602)
    assert not users.others_write(0o644)


def test_owners_and_modes_where_there_are_no_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "geteuid")
    assert users.this_user() is None
    assert users.is_this_user(12345) and users.is_this_user_or_root(12345)
    assert not users.others_write(0o666)


def test_an_interrupt_reaches_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (sys.platform, "win32"):
        monkeypatch.setattr(sys, "platform", name)
        with pytest.raises(KeyboardInterrupt):
            processes.interrupt()
            signal.sigtimedwait([], 5)


def test_nothing_is_noted_where_no_process_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork")
    processes.when_forked(lambda: None)
