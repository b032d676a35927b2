"""Who hangs, from what hosts say, and what another host's cleaner says when it is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddle_ipu.distributed import cleaner, instance_guard, remote_hosts
from paddle_ipu.distributed.hang_watch import Beats, Hang, ThisHost, Watch
from paddle_ipu.errors import LaunchError
from paddle_ipu.instances import heartbeat


class Far:
    """A host whose answers the test brings."""

    def __init__(self, host: str = "far") -> None:
        self.host, self.questions = host, 0
        self.said: Beats | None = None
        self._is_asked = False

    def ask(self) -> None:
        assert not self._is_asked, "it has not answered yet"
        self.questions, self._is_asked = self.questions + 1, True

    def answer(self) -> Beats | None:
        said, self.said = self.said, None
        self._is_asked = said is None
        return said


class Clock:
    """Seconds that pass while a watch looks every second."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_until(self, seconds: float, watch: Watch) -> Hang | None:
        """What the watch says then; it says nothing before."""
        while self.now < seconds - 1:
            self.now += 1.0
            assert watch.hang() is None
        self.now = seconds
        return watch.hang()


def test_who_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    watch = Watch([ThisHost(tmp_path)], [""] * 3, 10, clock)
    monkeypatch.setattr(heartbeat, "_file", -1)
    monkeypatch.setattr(heartbeat, "_runs", 0)
    heartbeat.beat()
    assert list(tmp_path.iterdir()) == [], "nobody watches"
    monkeypatch.setattr(heartbeat, "_folder", str(tmp_path))
    assert clock.pass_until(9, watch) is None
    heartbeat.beat()
    assert clock.pass_until(19.5, watch) is None
    heartbeat.beat()
    os.close(heartbeat._file)
    assert clock.pass_until(20, watch) is None
    found = clock.pass_until(30, watch)
    assert found is not None and found.instances == (1, 2)
    assert found.text.startswith("instances 1, 2 hang: no instance has begun a run for 10 s; ")


@pytest.mark.parametrize(
    ("processes", "instances", "text"),
    [
        ([("S", 1.0), ("S", 1.0)], (), "and none is behind the others: each has begun 3"),
        ([("S", 9.0), ("T", 1.0)], (1,), "each has begun 3, and there the process is stop"),
        ([("R", 9.0), ("S", 2.0)], (0,), "begun 3, and it computes while others wait"),
        ([("R", 9.0), ("R", 9.0)], (), "and none is behind the others: each has begun 3"),
    ],
)
def test_who_hangs_in_the_same_run(
    processes: list[tuple[str, float]], instances: tuple[int, ...], text: str
) -> None:
    clock, host = Clock(), Far()
    watch = Watch([host], ["", ""], 10, clock)
    host.said = {0: (3, "S", 0.0), 1: (3, "S", 0.0)}
    assert clock.pass_until(9, watch) is None
    host.said = {number: (3, *process) for number, process in enumerate(processes)}
    # It was asked at 1 s; what is answered at once to the next question counts.
    assert clock.pass_until(10, watch) is None
    clock.now = 11.0
    host.said = {number: (3, *process) for number, process in enumerate(processes)}
    found = watch.hang()
    assert found is not None and found.instances == instances
    assert text in found.text
    assert not instances or found.text.startswith(f"instance {instances[0]} hangs: no instance")


def test_answers_that_come_late_make_no_hang(tmp_path: Path) -> None:
    """A host that has said nothing for long may have gone on; what was asked late enough counts."""
    clock, far = Clock(), Far()
    (tmp_path / "0").write_bytes((4).to_bytes(8, "little"))
    watch = Watch([ThisHost(tmp_path), far], ["near", "far", "far"], 10, clock)
    said = {1: (3, "S", 1.0), 2: (4, "S", 1.0)}
    far.said = said
    assert watch.hang() is None
    assert clock.pass_until(100, watch) is None, "nobody knows what is so there"
    assert far.questions == 2
    # It was asked at 1 s, and says what was so then or later: not that it stays so.
    far.said = said
    assert (clock.pass_until(101, watch), far.questions) == (None, 2)
    assert (clock.pass_until(102, watch), far.questions) == (None, 3)
    far.said = said
    found = clock.pass_until(103, watch)
    assert found is not None and found.instances == (1,)
    assert found.text == (
        "instance 1 on far hangs: no instance has begun a run for 10 s; begun there are 3, "
        "elsewhere up to 4"
    )


def test_a_host_that_does_not_say(tmp_path: Path) -> None:
    clock, far = Clock(), Far()
    watch = Watch([ThisHost(tmp_path), far], ["near", "far"], 10, clock)
    assert watch.hang() is None
    found = clock.pass_until(250, watch)
    assert found is not None and found.instances == ()
    assert found.text == (
        "far did not say for 250 s how far its instances are, and no other has begun a run "
        "meanwhile"
    )


def test_a_launch_that_was_stopped_as_a_whole_may_go_on(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch([ThisHost(tmp_path)], ["", ""], 10, clock)
    assert clock.pass_until(9, watch) is None
    clock.now = 5000.0
    assert watch.hang() is None
    assert clock.pass_until(5009, watch) is None
    assert clock.pass_until(5010, watch) is not None


Notes = list[tuple[int, dict[str, Any]]]


@pytest.fixture
def notes() -> Notes:
    return []


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch, notes: Notes) -> Iterator[remote_hosts.Cleaner]:
    """A cleaner as on another host, which is this one; reached by a shell instead of SSH."""
    monkeypatch.setattr(remote_hosts, "_SSH", ("sh", "-c", 'eval "$1"'))
    with remote_hosts.Cleaner("far", lambda number, note: notes.append((number, note))) as found:
        yield found


def heard(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + 10
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_another_host_says_how_far_its_instances_are(
    other: remote_hosts.Cleaner, notes: Notes
) -> None:
    sleeping = subprocess.Popen([sys.executable, "-c", "sum(range(10**7)); input()"],
                                stdin=subprocess.PIPE)  # fmt: skip
    try:
        content = (3).to_bytes(8, "little") + sleeping.pid.to_bytes(8, "little")
        (Path(other.folder) / "1").write_bytes(content)
        (Path(other.folder) / "3").write_bytes((4).to_bytes(8, "little") + b"\xff" * 4 + bytes(4))
        sleeping.send_signal(signal.SIGSTOP)
        heard(lambda: cleaner.beats(Path(other.folder))[1][1] == "T")
        assert other.answer() is None
        other.ask()
        answer = heard(other.answer)
        (count, state, used), gone = answer.pop(1), answer.pop(3)
        assert (count, state, answer) == (3, "T", {})
        assert 0 <= used < 60
        assert gone == (4, "", 0.0)
    finally:
        sleeping.kill()
        sleeping.communicate()
    assert 0 < other.free_port() < 1 << 16
    # How an instance ended, by the clock of its host.
    instance_guard.note(Path(other.folder), "1", 7, 99)
    ((number, note),) = heard(lambda: notes)
    assert (number, note["code"], note["pid"]) == (1, 7, 99)
    assert "at" not in note and 0 <= note["age"] < 10


def test_a_host_without_a_free_port(
    other: remote_hosts.Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()

    def none(address: str = "") -> int:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(cleaner, "free_port", none)
    cleaner.clean(["port\n"], said.append)
    assert said == ["port Address already in use"]
    monkeypatch.setattr(other, "_wait_for", lambda what: said[0].removeprefix("port "))
    with pytest.raises(LaunchError) as caught:
        other.free_port()
    assert str(caught.value) == (
        "host far has no port for the instances to meet at: Address already in use."
    )
    monkeypatch.setattr(other, "_wait_for", lambda what: None)
    with pytest.raises(LaunchError, match="meet at: it did not answer. Check that the connection"):
        other.free_port()


def test_who_cleans_up_survives_counts_that_cannot_be_read(tmp_path: Path) -> None:
    said = list[str]()
    cleaner.clean(["beats\n"], said.append, str(tmp_path / "gone"))
    assert [json.loads(line.removeprefix("beats ")) for line in said] == [{}]
