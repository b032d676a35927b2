"""How instances of several hosts end: their guards, and who failed first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from paddle_ipu.distributed import cleaner, instance_guard
from paddle_ipu.distributed.endings import Endings
from paddle_ipu.instances import failed_exit, heartbeat


def guarded(folder: Path, *program: str) -> tuple[int, dict[str, object], str]:
    """The guard's code, its note, and what was printed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(instance_guard.__file__), str(folder), "3", *program],
        env={**os.environ, "IPUOF_CONFIG_PATH": "/p.conf"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    (file,) = folder.iterdir()
    assert file.name == "ended-3"
    return done.returncode, json.loads(file.read_text("utf-8")), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("program", "returned", "noted", "printed"),
    [
        (["sh", "-c", "echo ${IPUOF_CONFIG_PATH-none}; exit 7"], 7, 7, "none\n"),
        (["sh", "-c", "kill -9 $$"], -signal.SIGKILL, 128 + signal.SIGKILL, ""),
        (["sh", "-c", "kill -15 $PPID; exec sleep 60"], -signal.SIGTERM, 143, ""),
        (["./none"], 127, 127, "./none: No such file or directory\n"),
    ],
)
def test_guards_end_as_their_instances(
    tmp_path: Path, program: list[str], returned: int, noted: int, printed: str
) -> None:
    code, note, text = guarded(tmp_path, *program)
    assert (code, note["code"], text) == (returned, noted, printed)


def test_who_failed_first(tmp_path: Path) -> None:
    now = [0.0]
    endings = Endings(tmp_path, 4, lambda: now[0])
    (tmp_path / "ended-0").write_text('{"code": 0, "pid": 1, "host": "a", "at": 1.0}')
    assert not endings.is_over()
    # The others are ended because of instance 2, whichever is heard of first.
    endings.add_remote(1, {"code": 143, "pid": 2, "host": "b", "age": 0.1})
    endings.add_remote(2, {"code": 7, "pid": 3, "host": "b", "age": 0.0})
    now[0] = 4.0
    assert not endings.is_over()
    now[0] = 6.0
    assert endings.is_over()
    failure = endings.failure(lambda number: [f"line of {number}"])
    assert failure is not None
    assert (failure.instance, failure.how, failure.lines) == (
        2, "exited with code 7", ["line of 2"]
    )  # fmt: skip
    assert endings.code() == 7


def test_hosts_whose_clocks_differ(tmp_path: Path) -> None:
    """Other hosts say how long ago something was; this host's guards when, by the launch's clock.

    An instance that was killed is the first where one that waited for it failed soon after, though
    it is heard of last.
    """
    endings = Endings(tmp_path, 3, lambda: 5000.0)
    (tmp_path / "ended-0").write_text('{"code": 1, "pid": 1, "host": "a", "at": 4999.0}')
    endings.read_local()
    endings.add_remote(2, {"code": 3, "pid": 1, "host": "c", "age": 0.5})
    endings.add_remote(1, {"code": 137, "pid": 9, "host": "b", "age": 2.0})
    failure = endings.failure(lambda number: [])
    assert failure is not None
    assert (failure.instance, endings.code()) == (1, 137)


def test_an_instance_that_nobody_saw_end(tmp_path: Path) -> None:
    endings = Endings(tmp_path, 2)
    endings.add_remote(0, {"code": 0, "pid": 1, "host": "a", "age": 1.0})
    failure = endings.failure(lambda number: [])
    assert failure is not None
    assert (failure.instance, failure.how) == (1, "was lost: nobody saw its end")
    assert endings.code() == 1
    endings.add_remote(1, {"code": 0, "pid": 1, "host": "b", "age": 1.0})
    assert endings.failure(lambda number: []) is None
    assert endings.code() == 0
    killed = Endings(tmp_path, 2)
    killed.add_remote(1, {"code": 137, "pid": 5, "host": "b", "age": 1.0})
    failure = killed.failure(lambda number: [])
    assert failure is not None
    assert failure.how == "was killed by SIGKILL (process 5 on b)"


def test_a_line_that_was_cut_off_is_not_obeyed(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(cleaner.__file__)], input=f"folder {whole}\nfolder {cut}",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stderr, whole.exists(), cut.exists()) == ("", False, True)


def test_an_instance_that_waits_ends_though_instance_0_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Gone:
        def key_value_set(self, key: str, value: str) -> None:
            raise RuntimeError("UNAVAILABLE")

        def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
            return [(f"{key}1", "0")]

    codes, stop = list[int](), threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        stop.set()

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(heartbeat, "collectives", lambda: 1)
    monkeypatch.setattr(failed_exit, "_GRACE", 0.0)
    failed_exit._watch(Gone(), stop)
    assert codes == [1]
