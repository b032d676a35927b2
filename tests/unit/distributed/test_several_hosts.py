"""poprun over SSH between hosts that are namespaces of this machine: training, errors, endings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddle_ipu.distributed.hosts import host_list
from paddle_ipu.distributed.poprun_options import PLACEMENTS
from tests.unit.distributed import network_hosts
from tests.unit.distributed.network_hosts import Host
from tests.unit.distributed.test_paddle_training import PROGRAM, alone, compare, weights
from tests.unit.distributed.test_poprun import ALLOWED, ROOT, executable, wait_for, with_mpirun

SCRIPT = str(ROOT / "tests" / "unit" / "distributed" / "paddle_program.py")
_MISSING = network_hosts.why_not()
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(_MISSING is not None, reason=f"no several hosts here: {_MISSING}"),
    with_mpirun,
]
NAMES = ("ipu-parent", "ipu-child")
BOTH = f"--host={','.join(NAMES)}"
TWO = (BOTH, "--offline-mode=yes", "--num-instances=2", "--num-replicas=2")
Pair = tuple[Host, Host]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    # mpirun makes sockets in the temporary folder, whose path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="hosts-") as folder,
        network_hosts.hosts(Path(folder), NAMES) as (parent, child),
    ):
        yield parent, child


@pytest.fixture(autouse=True)
def nothing_left(pair: Pair) -> Iterator[None]:
    """After each test no host has a process or a temporary file that it did not have before."""
    yield
    for host in pair:
        wait_for(lambda host=host: host.processes() == {}, f"{host.name}: {host.processes()}")
        wait_for(lambda host=host: host.left_behind() == [], f"{host.name}: {host.left_behind()}")


def poprun(*words: str) -> list[str]:
    return [sys.executable, "-m", "paddle_ipu.distributed.poprun", *words]


def start(host: Host, *words: str) -> subprocess.Popen[str]:
    return host.start(poprun(*words), {**os.environ, **ALLOWED, "PYTHONPATH": str(ROOT)})


def run(host: Host, *words: str, timeout: float = 120) -> tuple[int, str, str]:
    process = start(host, *words)
    out, err = network_hosts.outcome(process, timeout)
    return process.returncode, out, err


def test_each_instance_runs_on_its_host(pair: Pair) -> None:
    script = (
        "import os, socket, popdist as p; "
        "print(p.getInstanceIndex(), p.getNumInstances(), p.getReplicaIndexOffset(), "
        "p.getLocalInstanceIndex(), socket.gethostname(), os.environ.get('IPUOF_CONFIG_PATH'), "
        "os.environ['POPLAR_LOG_LEVEL'])"
    )
    environment = {
        **os.environ, **ALLOWED, "PYTHONPATH": str(ROOT), "IPUOF_CONFIG_PATH": "/p.conf",
        "POPLAR_LOG_LEVEL": "WARN",
    }  # fmt: skip
    words = (BOTH, "--offline-mode=yes", "--num-instances=4", "--num-replicas=8",
             "--print-topology=yes", sys.executable, "-c", script)  # fmt: skip
    process = pair[0].start(poprun(*words), environment)
    out, err = network_hosts.outcome(process, 60)
    assert process.returncode == 0, err
    table, _, printed = out.rpartition("--+\n")
    assert all(name in table for name in NAMES)
    assert sorted(printed.splitlines()) == [
        "0 4 0 0 ipu-parent None WARN",
        "1 4 2 1 ipu-parent None WARN",
        "2 4 4 0 ipu-child None WARN",
        "3 4 6 1 ipu-child None WARN",
    ]


@pytest.mark.parametrize(
    "words",
    [
        *(f"--process-placement={name}" for name in PLACEMENTS),
        "--mpi-global-args=--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0",
    ],
)
def test_placements_and_networks(pair: Pair, words: str) -> None:
    code, out, err = run(pair[0], *TWO, words, "hostname")
    assert code == 0, err
    assert sorted(out.splitlines()) == sorted(NAMES)


@pytest.mark.parametrize("order", ["{1},{0}", "{1}", "10.231.77.[1-2]"])
def test_the_first_host_is_another_one(pair: Pair, order: str) -> None:
    """Instances meet there; and hosts may be addresses."""
    hosts = order.format(*NAMES)
    count = f"--num-instances={len(host_list(hosts))}"
    script = "import popdist as p; p.init(); print(p.allReduce(p.getInstanceIndex() + 1, 'max'))"
    words = (f"--host={hosts}", "--offline-mode=yes", count, f"--num-replicas={count[-1]}")
    code, out, err = run(pair[0], *words, sys.executable, "-c", script)
    assert code == 0, err
    assert out.split() == [count[-1]] * int(count[-1])


@pytest.mark.parametrize(("kind", "instances"), [("sgd", 2), ("adam", 4)])
def test_hosts_train_as_one_process(pair: Pair, tmp_path: Path, kind: str, instances: int) -> None:
    file = tmp_path / "hosts.npz"
    code, _, err = run(
        pair[0], BOTH, "--offline-mode=yes", f"--num-instances={instances}", "--num-replicas=4",
        *PROGRAM, kind, str(file),
    )  # fmt: skip
    assert code == 0, err
    compare(weights(file), alone(tmp_path, kind), kind)


def test_paddles_launcher_with_the_hosts_of_a_service(pair: Pair, tmp_path: Path) -> None:
    """Stock Paddle's command for IPUs, as it is: the service has its own port in this network."""
    executable(
        tmp_path / "bin" / "poprun",
        f'#!/bin/sh\nexec {sys.executable} -m paddle_ipu.distributed.poprun "$@"\n',
    )
    # An installation has a .pth file that does this.
    (tmp_path / "sitecustomize.py").write_text(
        "import _paddle_ipu_autoload; _paddle_ipu_autoload.start()\n", encoding="utf-8"
    )
    environment = {
        **os.environ, **ALLOWED, "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }  # fmt: skip
    address = pair[0].address
    service = pair[0].start(
        [sys.executable, "-m", "paddle_ipu.cli.main", "vipu-server", "--host", address,
         "--partition", "pod16=16"],
        environment,
    )  # fmt: skip
    try:
        assert service.stdout is not None
        assert f"on {address}:8090" in service.stdout.readline()
        file = tmp_path / "launched.npz"
        launcher = pair[0].start(
            [sys.executable, "-m", "paddle.distributed.launch", "--devices=4",
             f"--log_dir={tmp_path / 'log'}", "ipu", f"--hosts={','.join(NAMES)}",
             "--nproc_per_host=1", "--ipus_per_replica=1", "--ipu_partition=pod16",
             f"--vipu_server={address}", SCRIPT, "sgd", str(file)],
            environment,
        )  # fmt: skip
        out, err = network_hosts.outcome(launcher, 200)
        assert launcher.returncode == 0, out + err
        listed = pair[0].run(
            sys.executable, "-m", "paddle_ipu.distributed.vipu", "-H", address, "get", "partition",
            "pod16",
        )  # fmt: skip
        assert "Attached: none" in listed.stdout
    finally:
        for pid in network_hosts.children(service.pid):
            os.kill(pid, signal.SIGTERM)
        service.communicate()
    compare(weights(file), alone(tmp_path, "sgd"), "sgd")


@pytest.mark.parametrize(
    ("end", "code", "how"),
    [("exit 7", 7, "exited with code 7"), ("kill -9 $$", 137, "was killed by SIGKILL")],
)
@pytest.mark.parametrize("where", [0, 1])
def test_an_instance_that_dies_ends_those_of_all_hosts(
    pair: Pair, where: int, end: str, code: int, how: str
) -> None:
    script = (
        f"if [ $OMPI_COMM_WORLD_RANK = {where} ]; then echo the last line >&2; {end}; fi; "
        "exec sleep 60"
    )
    began = time.monotonic()
    got, _, err = run(pair[0], *TWO, "sh", "-c", script)
    assert got == code
    assert time.monotonic() - began < 30
    assert f"[E] instance {where} {how}" in err
    assert "    the last line\n" in err


@pytest.mark.parametrize(
    ("where", "how"),
    [
        (0, "time.sleep(600)"),
        (1, "time.sleep(600)"),
        (1, "os.kill(os.getpid(), signal.SIGSTOP)"),
    ],
)
def test_an_instance_that_hangs_is_named_and_all_end(pair: Pair, where: int, how: str) -> None:
    """It first goes on for longer than it may hang, and leaves a process in the background."""
    script = (
        "import os, signal, subprocess, time, popdist as p; p.init(); rank = p.getInstanceIndex()\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "for step in range(16):\n"
        "    p.allReduce(step); time.sleep(1)\n"
        "print(f'instance {rank} has made its steps', flush=True)\n"
        f"if rank == {where}: {how}\n"
        "p.allReduce(0)"
    )
    began = time.monotonic()
    code, _, err = run(pair[0], *TWO, "--hang-timeout=15", sys.executable, "-c", script, timeout=90)
    assert code == 124, err
    assert time.monotonic() - began >= 16 + 15
    assert (
        f"[E] instance {where} went no further; its last lines:\n"
        f"    instance {where} has made its steps\n"
    ) in err
    found = re.search(
        rf"\[E\] instance {where} on {NAMES[where]} hangs: no instance has begun a run for 15 s; "
        r"begun there are (\d+), elsewhere up to (\d+); every instance was told to end\n",
        err,
    )
    assert found is not None, err
    assert int(found[1]) + 1 == int(found[2])


def test_the_port_is_one_of_the_first_instances_host(pair: Pair) -> None:
    """The ranges of both hosts have no port in common."""
    ports, ranges = "/proc/sys/net/ipv4/ip_local_port_range", ("40000 40099", "50000 50099")
    before = pair[0].run("cat", ports).stdout
    for host, few in zip(pair, ranges, strict=True):
        host.run("sh", "-c", f"echo {few} > {ports}")
    try:
        for first, other in (NAMES, NAMES[::-1]):
            code, out, err = run(
                pair[0], f"--host={first},{other}", *TWO[1:], "printenv", "PADDLE_IPU_COORDINATOR"
            )
            assert code == 0, err
            host, _, port = out.split()[0].partition(":")
            assert host == first
            assert int(port) // 10000 == 4 + NAMES.index(first)
    finally:
        for host in pair:
            host.run("sh", "-c", f"echo {before.strip()} > {ports}")


def long_run(pair: Pair, tmp_path: Path) -> tuple[subprocess.Popen[str], int]:
    """A launch whose instances all run, and poprun's own id on this machine."""
    script = f"touch {tmp_path}/$OMPI_COMM_WORLD_RANK; (setsid sleep 60 &); exec sleep 60"
    process = start(pair[0], *TWO, "sh", "-c", script)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2, "the instances did not start")
    (own,) = network_hosts.children(process.pid)
    return process, own


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_every_process_of_all_hosts(
    pair: Pair, tmp_path: Path, number: signal.Signals
) -> None:
    process, own = long_run(pair, tmp_path)
    assert any("sleep 60" in command for command in pair[1].processes().values())
    os.kill(own, number)
    _, err = network_hosts.outcome(process, 60)
    if number != signal.SIGKILL:
        assert f"[W] ended by {number.name}; every instance was told to end" in err


def killed(host: Host, what: str) -> None:
    """Kills the processes of a host whose command line has a text."""
    found = [pid for pid, command in host.processes().items() if what in command]
    assert found, host.processes()
    for pid in found:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("what", ["prterun", "prted"])
def test_what_joins_the_hosts_is_killed(pair: Pair, tmp_path: Path, what: str) -> None:
    process, _ = long_run(pair, tmp_path)
    commands = " ".join(pair[1].processes().values())
    (daemon,) = set(re.findall(r"/tmp/poprun-daemon-\w+", commands))
    assert Path(daemon).is_dir()
    killed(pair[what != "prterun"], f"/{what} ")
    began = time.monotonic()
    _, err = network_hosts.outcome(process, 60)
    assert process.returncode != 0
    assert "POPRUN [E]" in err
    assert time.monotonic() - began < 30
    assert not Path(daemon).exists()


@pytest.mark.parametrize("where", [0, 1])
def test_what_cleans_up_is_killed(pair: Pair, tmp_path: Path, where: int) -> None:
    process, own = long_run(pair, tmp_path)
    killed(pair[where], "cleaner.py ")
    if where == 0:
        # Of this host's own, nothing is needed before the end; the other's is killed by its SSH.
        os.kill(own, signal.SIGTERM)
    _, err = network_hosts.outcome(process, 60)
    assert process.returncode != 0
    assert "Traceback" not in err
    if where == 1:
        assert "[E] the connection to ipu-child was lost; every instance was told to end" in err


@pytest.fixture
def ssh_folder(pair: Pair) -> Iterator[Callable[[int, str, str | None], None]]:
    """Changes a file of a host's `.ssh` folder (None: takes it away) for the length of a test."""
    kept: dict[Path, bytes] = {}

    def change(host: int, name: str, text: str | None) -> None:
        path = pair[host].home / ".ssh" / name
        kept[path] = path.read_bytes()
        path.unlink() if text is None else path.write_text(text, encoding="ascii")

    yield change
    for path, content in kept.items():
        path.write_bytes(content)


def refused(pair: Pair, *words: str) -> str:
    """What poprun says that does not get to its hosts; it does so soon."""
    began = time.monotonic()
    code, out, err = run(pair[0], *words, "true")
    assert (code, out) == (1, "")
    assert time.monotonic() - began < 30
    return err


def test_an_unknown_host_key(
    pair: Pair, ssh_folder: Callable[[int, str, str | None], None]
) -> None:
    ssh_folder(0, "known_hosts", None)
    err = refused(pair, *TWO)
    assert err == (
        "POPRUN ERROR: host ipu-child cannot be reached: Host key verification failed. Its key "
        "belongs into ~/.ssh/known_hosts: log in once with `ssh ipu-child`.\n"
    )


def test_a_changed_host_key(pair: Pair, ssh_folder: Callable[[int, str, str | None], None]) -> None:
    other = (pair[0].home / ".ssh/id_ed25519.pub").read_text(encoding="ascii")
    ssh_folder(0, "known_hosts", f"ipu-child {other}")
    assert "host ipu-child cannot be reached: Host key verification failed." in refused(pair, *TWO)


def test_a_refused_key(pair: Pair, ssh_folder: Callable[[int, str, str | None], None]) -> None:
    ssh_folder(1, "authorized_keys", "")
    err = refused(pair, *TWO)
    assert err == (
        "POPRUN ERROR: host ipu-child cannot be reached: root@ipu-child: Permission denied "
        "(publickey,keyboard-interactive). Add this host's public key to ~/.ssh/authorized_keys on "
        "ipu-child; passwords are not supported.\n"
    )


@pytest.mark.parametrize(
    ("host", "message"),
    [
        # Of the network of all hosts, and nobody's.
        ("10.231.77.250", "No route to host"),
        ("nobody.invalid", "Could not resolve hostname"),
    ],
)
def test_a_host_that_does_not_answer(pair: Pair, host: str, message: str) -> None:
    err = refused(pair, f"--host=ipu-parent,{host}", *TWO[1:])
    assert err.startswith(f"POPRUN ERROR: host {host} cannot be reached: ssh: ")
    assert message in err
    assert f"Check that `ssh {host} true` works from here." in err
