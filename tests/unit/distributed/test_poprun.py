"""poprun with a true mpirun: what is printed, what a fault ends, what stays behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from paddle_ipu.distributed import poprun, remote_hosts
from paddle_ipu.distributed.mpi_process import Failure
from paddle_ipu.errors import LaunchError
from paddle_ipu.instances.vipu_client import VipuClient
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from tests.checkout import ROOT

ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TWO = ("--offline-mode=yes", "--num-instances=2", "--num-replicas=4")


def _has_mpirun() -> bool:
    try:
        poprun.find_mpirun(os.environ)
    except LaunchError:
        return False
    return True


with_mpirun = pytest.mark.skipif(not _has_mpirun(), reason="Open MPI's mpirun is not installed")


def start(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    """poprun in a process of its own, whose temporary files are in a folder of the test's."""
    (tmp_path / "tmp").mkdir(exist_ok=True)
    environment = {
        **os.environ, **ALLOWED, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "paddle_ipu.distributed.poprun", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    process = start(tmp_path, *words)
    try:
        # A machine that does much else is slow.
        out, err = process.communicate(timeout=180)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


def left_behind(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "tmp").iterdir()]


def wait_for(condition: object, what: str) -> None:
    end = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@with_mpirun
def test_instances_know_their_place(tmp_path: Path) -> None:
    script = (
        "import os, popdist as p; print(p.getInstanceIndex(), p.getNumInstances(), "
        "p.getReplicaIndexOffset(), p.getNumLocalReplicas(), 'IPUOF_CONFIG_PATH' in os.environ, "
        "os.path.isdir(os.environ['POPART_CACHE_DIR']))"
    )
    code, out, err = run(
        tmp_path, *TWO, "--mpi-global-args=--tag-output", "--print-topology=yes", sys.executable,
        "-c", script,
    )  # fmt: skip
    assert code == 0, err
    table, _, printed = out.rpartition("--+\n")
    assert "poprun topology" in table
    assert sorted(printed.splitlines()) == [
        "[1,0]<stdout>: 0 2 0 2 False True",
        "[1,1]<stdout>: 1 2 2 2 False True",
    ]
    assert left_behind(tmp_path) == []


DYING = """
cd {folder}
echo instance $OMPI_COMM_WORLD_RANK
if [ $OMPI_COMM_WORLD_RANK = 1 ]; then
    until [ -e said ]; do sleep 0.1; done
    echo the last line >&2
    {end}
fi
touch said
exec sleep 60
"""


@with_mpirun
@pytest.mark.parametrize(
    ("end", "code", "how"),
    [("exit 7", 7, "exited with code 7"), ("kill -9 $$", 137, r"was killed by SIGKILL")],
)
def test_an_instance_that_dies_ends_all(tmp_path: Path, end: str, code: int, how: str) -> None:
    began = time.monotonic()
    words = (
        *TWO,
        "--only-output-from-instance=0",
        "sh",
        "-c",
        DYING.format(folder=tmp_path, end=end),
    )
    got, out, err = run(tmp_path, *words)
    assert got == code
    assert time.monotonic() - began < 30
    assert out == "instance 0\n"
    assert f"[E] instance 1 {how}" in err
    assert "its last lines (hidden by --only-output-from-instance):\n" in err
    assert "    the last line\n" in err
    assert left_behind(tmp_path) == []


@with_mpirun
def test_the_last_instance_fails(tmp_path: Path) -> None:
    script = "echo instance $OMPI_COMM_WORLD_RANK; test $OMPI_COMM_WORLD_RANK = 1 || exit 3"
    later = script.replace("|| exit 3", "|| { sleep 1; exit 3; }")
    code, _, err = run(tmp_path, *TWO, "sh", "-c", later)
    assert code == 3
    assert (
        "[E] an instance exited with code 3 after the others had ended; the last lines of each:\n"
        "    0: instance 0\n    1: instance 1\n"
    ) in err
    code, _, err = run(tmp_path, "--offline-mode=yes", "sh", "-c", script)
    assert code == 3
    assert "[E] instance 0 exited with code 3; its last lines:\n    instance 0\n" in err


@with_mpirun
def test_the_instance_that_hangs_is_named(tmp_path: Path) -> None:
    script = (
        "echo instance $OMPI_COMM_WORLD_RANK; cd $PADDLE_IPU_HEARTBEAT; "
        "test $OMPI_COMM_WORLD_RANK = 1 && c='\\003' || c='\\004'; "
        "printf $c'\\0\\0\\0\\0\\0\\0\\0' > $OMPI_COMM_WORLD_RANK; exec sleep 60"
    )
    code, _, err = run(tmp_path, *TWO, "--hang-timeout=3", "sh", "-c", script)
    assert code == 124
    assert "[E] instance 1 went no further; its last lines:\n    instance 1\n" in err
    assert "instance 0 went no further" not in err
    assert (
        "instance 1 hangs: no instance has begun a run for 3 s; begun there are 3, elsewhere up "
        "to 4; every instance was told to end"
    ) in err
    assert left_behind(tmp_path) == []


def test_no_port_is_free(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(address: str = "") -> int:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(poprun, "free_port", none)
    monkeypatch.setattr(poprun, "find_mpirun", lambda environment: "mpirun")
    assert poprun.main(["--offline-mode=yes", "--allow-run-as-root", "true"]) == 1
    assert capsys.readouterr().err == (
        "POPRUN ERROR: this host has no port for the instances to meet at: Address already in "
        "use.\n"
    )


@with_mpirun
def test_output_that_nobody_reads_any_more_ends_all(tmp_path: Path) -> None:
    # Not faster than they are read: mpirun would keep what is not.
    lines = "while echo a line of many; do sleep 0.01; done"
    process = start(tmp_path, "--offline-mode=yes", "sh", "-c", lines)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "a line of many\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 128 + signal.SIGPIPE
    assert "ended by SIGPIPE; every instance was told to end" in process.stderr.read()
    process.stderr.close()
    assert left_behind(tmp_path) == []


@with_mpirun
def test_neither_output_is_read_any_more(tmp_path: Path) -> None:
    # Not faster than they are read: mpirun would keep what is not.
    lines = "while echo a line of many; do sleep 0.01; done"
    process = start(tmp_path, "--offline-mode=yes", "sh", "-c", lines)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stderr.close()
    process.stdout.close()
    assert process.wait(timeout=30) == 128 + signal.SIGPIPE
    assert left_behind(tmp_path) == []


@with_mpirun
@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        pytest.param("raise RuntimeError('no more data')", 1, "RuntimeError: no more data",
                     marks=pytest.mark.thorough),
        ("raise SystemExit(3)", 3,
         "this instance ends, and others wait for it in a run: instance 0. All instances of a"),
    ],
)  # fmt: skip
def test_an_instance_that_leaves_ends_those_that_wait(
    tmp_path: Path, end: str, code: int, message: str
) -> None:
    script = f"import popdist as p; p.init()\nif p.getInstanceIndex() == 1: {end}\np.barrier()"
    got, _, err = run(tmp_path, *TWO, sys.executable, "-c", script)
    assert got == code
    assert f"instance 1 exited with code {code}; its last lines" in err
    assert message in err


@with_mpirun
@pytest.mark.thorough
def test_an_instance_ends_well_before_the_others(tmp_path: Path) -> None:
    script = "import popdist as p; p.init()\nif p.getInstanceIndex() == 0: p.barrier()"
    code, _, err = run(tmp_path, *TWO, sys.executable, "-c", script)
    assert code == 1
    assert "this instance waits in a run for what has ended: instance 1. All instances of a" in err


@with_mpirun
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_every_process(tmp_path: Path, number: signal.Signals) -> None:
    script = (
        f"cd {tmp_path}; echo $$ > $OMPI_COMM_WORLD_RANK.part; "
        "mv $OMPI_COMM_WORLD_RANK.part $OMPI_COMM_WORLD_RANK.pid; exec sleep 60"
    )
    process = start(tmp_path, *TWO, "sh", "-c", script)
    files = [tmp_path / f"{rank}.pid" for rank in (0, 1)]
    wait_for(lambda: all(file.exists() for file in files), "the instances did not start")
    assert len(left_behind(tmp_path)) >= 1
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number
        assert f"[W] ended by {number.name}; every instance was told to end" in err
    for file in files:
        pid = int(file.read_text())
        wait_for(lambda pid=pid: not is_running(pid), f"process {pid} still runs")
    wait_for(lambda: left_behind(tmp_path) == [], f"left behind: {left_behind(tmp_path)}")


@with_mpirun
def test_a_partition_does_not_outlive_the_poprun_that_made_it(
    tmp_path: Path, client: VipuClient
) -> None:
    """Neither where poprun is killed, nor with what an instance left in the background."""
    words = (
        f"--vipu-server-host={client.host}", f"--vipu-server-port={client.port}",
        "--vipu-partition=p", "--update-partition=yes", *TWO[1:],
    )  # fmt: skip
    script = (
        f"(setsid sleep 60 & echo $! > {tmp_path}/$OMPI_COMM_WORLD_RANK.part; "
        f"mv {tmp_path}/$OMPI_COMM_WORLD_RANK.part {tmp_path}/$OMPI_COMM_WORLD_RANK.pid); "
        "exec sleep 60"
    )
    process = start(tmp_path, *words, "sh", "-c", script)
    files = [tmp_path / f"{rank}.pid" for rank in (0, 1)]
    wait_for(lambda: all(file.exists() for file in files), "the instances did not start")
    assert [partition["name"] for partition in client.call("partitions")] == ["p"]
    process.kill()
    process.communicate(timeout=60)
    wait_for(lambda: client.call("partitions") == [], "the partition is still there")
    for file in files:
        assert not is_running(int(file.read_text()))
    wait_for(lambda: left_behind(tmp_path) == [], f"left behind: {left_behind(tmp_path)}")


@with_mpirun
def test_a_partition_is_destroyed_before_an_instance_attaches(
    tmp_path: Path, client: VipuClient
) -> None:
    client.call("create", name="p", size=2)
    script = (
        "from paddle_ipu.instances import attachment, ipuof\nfound = ipuof.target()\n"
        "found.client.call('remove', name='p')\nattachment.attach(1)"
    )
    code, _, err = run(
        tmp_path, f"--vipu-server-host={client.host}", f"--vipu-server-port={client.port}",
        sys.executable, "-c", script,
    )  # fmt: skip
    assert code == 1
    assert "Can't attach IPU, ipu_num = 1. partition p not found. `paddle-ipu gc-monitor`" in err
    assert "[E] instance 0 exited with code 1; its last lines:\n" in err
    assert left_behind(tmp_path) == []


@with_mpirun
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_training(tmp_path: Path, kind: str) -> None:
    words = (
        *TWO,
        sys.executable,
        "-m",
        "tests.unit.distributed.instance_program",
        str(tmp_path),
        kind,
    )
    code, _, err = run(tmp_path, *words)
    assert code == 0, err
    first, second = (dict(np.load(tmp_path / f"{rank}.npz")) for rank in (0, 1))
    assert np.array_equal(first["train.w"], second["train.w"])


@with_mpirun
@pytest.mark.thorough
def test_one_instance_compiles_for_all_and_for_later_launches(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    program = (
        sys.executable,
        "-m",
        "tests.unit.distributed.instance_program",
        str(tmp_path),
        "sgd",
    )
    keys, weights = [], []
    for _ in range(2):
        code, _, err = run(tmp_path, *TWO, f"--executable-cache-path={cache}", *program)
        assert code == 0, err
        keys.append({entry.key: entry.size for entry in ExecutableCache(cache).entries()})
        weights.append(np.load(tmp_path / "1.npz")["train.w"])
    # Of two programs, with updates and without: the executable, and what leads to it untraced.
    assert len(keys[0]) == 4
    assert keys[1] == keys[0]
    assert np.array_equal(*weights)


def test_no_room_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(prefix: str) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(poprun, "find_mpirun", lambda environment: "mpirun")
    monkeypatch.setattr("tempfile.mkdtemp", full)
    words = ["--offline-mode=yes", "--allow-run-as-root", "--num-instances=3", "--num-replicas=3"]
    assert poprun.main([*words, "--host=localhost,far", "true"]) == 1
    assert "--num-instances=3 cannot be divided evenly among 2 hosts" in capsys.readouterr().err
    assert poprun.main([*words, "--host=localhost", "true"]) == 1
    assert capsys.readouterr().err == (
        "POPRUN ERROR: a folder for temporary files cannot be made: No space left on device. Make "
        "room, or name another place in TMPDIR.\n"
    )


def test_more_hosts_than_instances(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(poprun, "find_mpirun", lambda environment: "mpirun")
    asked: list[str] = []
    monkeypatch.setattr(remote_hosts, "check_all", asked.extend)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: 1 / 0)
    words = ["--offline-mode=yes", "--allow-run-as-root", "--host=localhost,far", "true"]
    with pytest.raises(ZeroDivisionError):
        poprun.main(words)
    assert asked == []
    err = capsys.readouterr().err
    assert err.endswith("[W] more hosts than instances: far get none\n")


def test_wrong_options_end_at_once(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "--num-replicas=0", "true")
    assert (code, out) == (1, "")
    assert err == "POPRUN ERROR: option --num-replicas takes a number from 1, got '0'\n"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert poprun.main(["--help"]) == 0
    assert "usage: poprun [options] program" in capsys.readouterr().out
    assert poprun.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("poprun ")
    for form in ("full-json", "full-text"):
        assert poprun.main(["--version", f"--version-format={form}"]) == 0
        assert "mpirun" in capsys.readouterr().out


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_which_mpirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    with pytest.raises(LaunchError, match=r"mpirun is not found. Install Open MPI: pip install"):
        poprun.find_mpirun({"PATH": str(tmp_path)})
    executable(tmp_path / "mpirun", "#!/bin/sh\necho mpirun of somebody else\n")
    with pytest.raises(LaunchError, match="mpirun is not Open MPI's mpirun"):
        poprun.find_mpirun({"PATH": str(tmp_path)})
    right = executable(tmp_path / "bin" / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5'\n")
    assert poprun.find_mpirun({"PATH": str(tmp_path)}) == str(right)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Host key verification failed.", "belongs into ~/.ssh/known_hosts: log in once"),
        ("me@h: Permission denied (publickey).", "Add this host's public key to ~/.ssh/authorized"),
        ("ssh: connect to host h port 22: Connection timed out", "Check that `ssh h true` works"),
    ],
)
def test_hosts_that_do_not_let_us_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    executable(tmp_path / "ssh", f"#!/bin/sh\necho '{said}' >&2\nexit 255\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LaunchError) as error:
        remote_hosts.check("h")
    assert f"host h cannot be reached: {said}" in str(error.value)
    assert message in str(error.value)


def test_hosts_are_asked_without_taking_poprun_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "ssh", "#!/bin/sh\ncat >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    read, write = os.pipe()
    kept = os.dup(0)
    try:
        os.write(write, b"the caller's\n")
        os.close(write)
        os.dup2(read, 0)
        with pytest.raises(LaunchError, match="cannot be reached: ssh ended with code 1"):
            remote_hosts.check("h")
        assert os.read(0, 100) == b"the caller's\n"
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(read)


def test_hosts_that_print_something_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "ssh", "#!/bin/sh\necho Welcome\ncat\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LaunchError, match=r"host h prints 'Welcome' .*: see its ~/.bashrc"):
        remote_hosts.Cleaner("h")


def test_no_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="ssh is not installed, and host h"):
        remote_hosts.check("h")


def test_this_host() -> None:
    assert all(remote_hosts.is_this_host(host) for host in ("localhost", "127.0.0.1"))
    # Of the range for documentation.
    assert not remote_hosts.is_this_host("192.0.2.1")


def test_a_failure_without_a_word() -> None:
    text = poprun.describe(Failure(3, "exited with code 1", []), shown=True)
    assert text == "instance 3 exited with code 1; it had printed nothing"
