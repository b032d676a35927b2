"""The folder of compiled programs: what is trusted, who waits for whom, how large it grows."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paddle_ipu.errors import CacheError
from paddle_ipu.options.cache_folder import CACHE_SIZE_VARIABLE
from paddle_ipu.xla.step import executable_cache
from paddle_ipu.xla.step.executable_cache import ExecutableCache, size_limit
from tests.child_process import fork

KEY, OTHER = "a1" * 32, "b2" * 32
TOLD = {"weights": ["w"], "bytes": 7}


@pytest.fixture
def cache(tmp_path: Path) -> ExecutableCache:
    made = ExecutableCache(tmp_path / "cache")
    assert made.store(KEY, TOLD, b"machine code")
    return made


def _file(cache: ExecutableCache) -> Path:
    return cache.folder / f"{KEY}.ipuexe"


def test_an_entry_comes_back_as_it_was(cache: ExecutableCache) -> None:
    assert cache.load(KEY) == (TOLD, b"machine code")
    assert cache.load(OTHER) is None
    again = ExecutableCache(cache.folder)
    assert again.load(KEY) == (TOLD, b"machine code")
    assert [entry.key for entry in again.entries()] == [KEY]
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert _file(cache).stat().st_mode & 0o777 == 0o600


def _edit(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def _become_a_link(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def _become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGED = {
    "one byte is another": (_edit(lambda data: data[:-3] + b"X" + data[-2:]), "damaged"),
    "the end is missing": (_edit(lambda data: data[:-1]), "damaged"),
    "more at the end": (_edit(lambda data: data + b"!"), "damaged"),
    "only the front": (_edit(lambda data: data[:20]), "damaged"),
    "empty": (_edit(lambda data: b""), "another kind"),
    "another format": (_edit(lambda data: b"paddle_ipu 0\n" + data[13:]), "another kind"),
    "a pickle": (_edit(lambda data: b"cos\nsystem\n(S'false'\ntR."), "another kind"),
    "others can write it": (lambda path: path.chmod(0o620), "other users can write it"),
    "a link": (_become_a_link, "cannot be read"),
    "a pipe": (_become_a_pipe, "no ordinary file"),
}


@pytest.mark.parametrize("change", DAMAGED)
def test_what_cannot_be_trusted_is_no_entry(
    cache: ExecutableCache, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoil, why = DAMAGED[change]
    spoil(_file(cache))
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        assert cache.load(KEY) is None
    assert why in caplog.text and "It is compiled again." in caplog.text
    assert cache.store(KEY, TOLD, b"new")
    assert cache.load(KEY) == (TOLD, b"new")


def test_an_entry_under_another_name_is_no_entry(cache: ExecutableCache) -> None:
    _file(cache).rename(cache.folder / f"{OTHER}.ipuexe")
    assert cache.examine(OTHER) == "it is the entry of another program"
    assert cache.load(OTHER) is None


def test_a_file_of_another_user_is_no_entry(
    cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        # Root's own are everybody's.
        for path in (cache.folder, _file(cache)):
            os.chown(path, 65533, -1)
    user = cache.folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert cache.examine(KEY) == f"it belongs to user {user}"
    with pytest.raises(CacheError, match=f"belongs to user {user}, not to this one"):
        ExecutableCache(cache.folder)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(CacheError, match=rf"mode {mode:o}\).*runs as machine code.*chmod go-w"):
        ExecutableCache(tmp_path)


def test_a_folder_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CacheError, match=f"cannot be at {place}: .*cache_path"):
            ExecutableCache(place)
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    with pytest.raises(CacheError, match="cannot be written .* and holds no program"):
        ExecutableCache(tmp_path)


def test_a_full_disk_without_room_for_the_lock_costs_the_waiting_only(
    cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make = os.open

    def full(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(28, "No space left on device")
        return make(path, flags, mode)

    monkeypatch.setattr(os, "open", full)
    with cache.alone(KEY):
        assert cache.load(KEY) is not None
    with cache.alone(OTHER):
        assert not cache.store(OTHER, TOLD, b"x")
    lock = cache.folder / "lock"
    assert f"{lock} cannot be locked (No space left on device): processes" in caplog.text


def test_a_full_disk_costs_the_entry_only(
    cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert not cache.store(OTHER, TOLD, b"x")
    assert f"was not kept in {cache.folder}: No space left on device." in caplog.text
    assert sorted(path.name for path in cache.folder.iterdir()) == [f"{KEY}.ipuexe"]


# -- bound ----------------------------------------------------------------------------------------


def test_what_was_used_least_recently_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_SIZE_VARIABLE, "4KB")
    cache = ExecutableCache(tmp_path)
    keys = [f"{number:02x}" * 32 for number in range(3)]
    for age, key in enumerate(reversed(keys)):
        cache.store(key, {}, bytes(1000))
        os.utime(tmp_path / f"{key}.ipuexe", (age, age))
    cache.load(keys[2])  # the one that was written first
    cache.store(KEY, {}, bytes(1000))
    assert {entry.key for entry in cache.entries()} == {KEY, keys[2], keys[0]}
    # One that is larger than the bound is kept by itself.
    cache.store(OTHER, {}, bytes(9000))
    assert [entry.key for entry in cache.entries()] == [OTHER]


def test_a_folder_is_looked_through_again_when_the_bound_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_SIZE_VARIABLE, "10KB")
    looks: list[str] = []
    entries = ExecutableCache.entries
    monkeypatch.setattr(ExecutableCache, "entries", lambda c: looks.append("") or entries(c))
    cache = ExecutableCache(tmp_path)
    for number in range(12):
        cache.store(f"{number:064x}", {}, bytes(1000))
    assert len(looks) < 6
    assert sum(entry.size for entry in entries(cache)) <= cache.limit


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 5 * 2**30), ("123", 123), ("1.5KB", 1536), (" 2 gb ", 2**31), ("0", 0)],
)
def test_the_bound_is_a_size(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_SIZE_VARIABLE, text)
    assert size_limit() == size


def test_a_bound_that_is_no_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_SIZE_VARIABLE, "lots")
    with pytest.raises(
        CacheError, match=rf"{CACHE_SIZE_VARIABLE} is 'lots', expected a number of bytes"
    ):
        ExecutableCache(tmp_path)


def test_abandoned_files_go(cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable_cache, "_sizes", {})
    old, new = (cache.folder / f"{name}.unfinished" for name in ("old", "new"))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    cache.store(OTHER, TOLD, b"x")
    assert not old.exists() and new.exists()
    assert cache.clear() == 2
    assert list(cache.folder.iterdir()) == []


# -- several at once ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork.*:RuntimeWarning")
def test_one_process_makes_an_entry_and_the_others_wait(cache: ExecutableCache) -> None:
    made = cache.folder / "made"

    def work() -> None:
        with cache.alone(OTHER):
            if cache.load(OTHER) is None:
                with made.open("a") as file:
                    file.write("x")
                time.sleep(0.1)
                cache.store(OTHER, {}, b"x")

    children = [fork(work) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert made.read_text() == "x"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork.*:RuntimeWarning")
def test_a_process_that_is_killed_while_it_writes_leaves_nothing(
    cache: ExecutableCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        monkeypatch.setattr(os, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        with cache.alone(OTHER):
            cache.store(OTHER, {}, b"half")

    assert os.waitpid(fork(work), 0)[1] == signal.SIGKILL
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with cache.alone(OTHER):  # the lock of a dead process is nobody's
        assert cache.load(OTHER) is None
        cache.store(OTHER, {}, b"whole")
    assert waits == []
    assert cache.load(OTHER) == ({}, b"whole")


def test_threads_wait_for_one_another_too(cache: ExecutableCache) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(key: str) -> None:
        with cache.alone(key), cache.alone(OTHER):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=work, args=(f"{n:064x}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


def test_a_cache_that_is_removed_meanwhile_is_made_again(cache: ExecutableCache) -> None:
    for path in cache.folder.iterdir():
        path.unlink()
    with cache.alone(KEY):
        assert cache.store(KEY, TOLD, b"again")
    assert cache.load(KEY) == (TOLD, b"again")


def test_messages_say_where() -> None:
    with pytest.raises(CacheError, match=re.escape("/proc/nowhere")):
        ExecutableCache("/proc/nowhere")
