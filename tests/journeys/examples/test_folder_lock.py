"""Two runs in one folder: the second is refused, and the first one's files stay as they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.bert.files import DataError
from examples.bert.folder_lock import only_run_in
from tests.checkout import ROOT

_HOLD = """
import sys, time
from pathlib import Path
from examples.bert.folder_lock import only_run_in
with only_run_in(Path(sys.argv[1]), "--output_dir"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_the_second_run_is_refused_while_the_first_lives(folder: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(DataError) as refused, only_run_in(folder, "--output_dir"):
            pass
        assert f"--output_dir {folder}: another run is at work in it, process {first.pid} on" in (
            str(refused.value)
        )
        first.send_signal(signal.SIGKILL)
        first.wait()
        # What a killed run leaves stops nobody.
        with only_run_in(folder, "--output_dir"):
            assert f"process {os.getpid()} " in (folder / ".running").read_text()
    finally:
        first.kill()
        first.communicate()
    assert list(folder.iterdir()) == []


def test_the_lock_leaves_nothing_behind(folder: Path) -> None:
    with pytest.raises(KeyError), only_run_in(folder, "--output"):
        raise KeyError
    assert not folder.exists()
    folder.mkdir()
    with only_run_in(folder, "--output"):
        (folder / "log").touch()
    assert [path.name for path in folder.iterdir()] == ["log"]
