"""Locks of files: kept from others, given back, and refused where a system has none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddle_ipu.operating_system import file_locks
from tests.unit.operating_system.other_systems import Locking

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
FAR = 2**59 + 1


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Locking:
    locking = Locking()
    monkeypatch.setattr(file_locks, "_FCNTL", None)
    monkeypatch.setattr(file_locks, "_MSVCRT", locking)
    return locking


def test_another_process_is_kept_out_until_it_ends(descriptor: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock"), str(FAR)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            file_locks.lock_byte(descriptor, FAR)
        with pytest.raises(BlockingIOError):
            file_locks.lock(descriptor, waits=False)
        file_locks.lock_byte(descriptor, FAR + 1)
        other.kill()
    file_locks.lock_byte(descriptor, FAR)
    file_locks.unlock_byte(descriptor, FAR)
    file_locks.lock(descriptor, waits=True)


def test_windows_locks_bytes_that_it_can_reach(descriptor: int, windows: Locking) -> None:
    file_locks.lock_byte(descriptor, FAR)
    with pytest.raises(BlockingIOError):
        file_locks.lock_byte(descriptor, FAR)
    file_locks.lock(descriptor, waits=False)
    with pytest.raises(BlockingIOError):
        file_locks.lock(descriptor, waits=False)
    assert len(windows.held) == 2
    file_locks.unlock_byte(descriptor, FAR)
    file_locks.lock_byte(descriptor, FAR)


def test_windows_waits_for_a_file(
    descriptor: int, windows: Locking, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_locks.lock(descriptor, waits=False)
    monkeypatch.setattr(file_locks.time, "sleep", lambda seconds: windows.held.clear())
    file_locks.lock(descriptor, waits=True)
    assert len(windows.held) == 1


def test_a_system_without_locks_says_so_as_a_file_system_does(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FCNTL", "_MSVCRT"):
        monkeypatch.setattr(file_locks, name, None)
    for locked in (
        lambda: file_locks.lock(descriptor, waits=True),
        lambda: file_locks.lock_byte(descriptor, 3),
    ):
        with pytest.raises(OSError) as raised:
            locked()
        assert raised.value.errno == errno.ENOLCK in file_locks.NO_LOCKS


def test_folders_are_opened_where_they_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = file_locks.opened_folder(tmp_path)
    assert opened is not None
    os.close(opened)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError):
        file_locks.opened_folder(tmp_path / "link")
    monkeypatch.delattr(os, "O_DIRECTORY")
    assert file_locks.opened_folder(tmp_path) is None
