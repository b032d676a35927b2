"""Several hosts on one machine: each a network, a name, processes and an SSH server of its own.

A host is a set of Linux namespaces (network, mounts, names, processes, and clocks where the kernel
has such), and all are joined by a bridge in one more. They share the files of the machine, as the
hosts of a Pod do, but for the home folder, the folder for temporary files, `/etc/hosts` and `/run`,
which each has for itself. Nothing of them is visible outside, and they end with the process that
made them, however it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = ("unshare", "nsenter", "ip", "ssh", "ssh-keygen", "sshd", "mount")
_SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_PR_SET_PDEATHSIG = 1


def why_not() -> str | None:
    """Why this machine cannot have hosts of its own; None where it can."""
    if os.geteuid():
        return "namespaces with SSH servers need root"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_SYSTEM_PATH) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (openssh-server, iproute2, util-linux)"
    probe = subprocess.run(
        [_program("unshare"), "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc",
         _program("ip"), "link", "add", "probe", "type", "bridge"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if probe.returncode:
        return f"no network namespaces: {probe.stderr.strip()}"
    return None


def _program(name: str) -> str:
    found = shutil.which(name, path=_SYSTEM_PATH)
    assert found is not None, name
    return found


@dataclass(frozen=True)
class Host:
    """One host.

    Attributes:
        name: as the others know it by their `/etc/hosts`.
        address: in the network of all hosts.
        pid: on this machine, of the host's first process.
        home: of root there.
        temporary: for its temporary files; this path is another folder on each host.
    """

    name: str
    address: str
    pid: int
    home: Path
    temporary: Path

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Starts a program there; the process is `nsenter`'s, and has the program as its child."""
        enter = [
            _program("nsenter"), f"--target={self.pid}", "--net", "--mount", "--uts", "--pid",
            *_OWN_CLOCK, f"--wd={os.getcwd()}", "--",
        ]  # fmt: skip
        own = {"HOME": str(self.home), "TMPDIR": str(self.temporary)}
        return subprocess.Popen(
            [*enter, *words], env={**environment, **own}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs a program there to its end."""
        process = self.start(words, os.environ)
        out, err = outcome(process, timeout)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def processes(self) -> dict[int, str]:
        """Its programs but for the SSH server: id on this machine -> command line."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == self.pid:
                continue
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/pid") != own:
                    continue
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                # A process that has ended has no command line any more.
                if command and not command.startswith("sshd:"):
                    found[int(entry.name)] = command
        return found

    def left_behind(self) -> list[str]:
        """Names of its temporary files."""
        return sorted(os.listdir(f"/proc/{self.pid}/root{self.temporary}"))


def outcome(process: subprocess.Popen[str], timeout: float) -> tuple[str, str]:
    """What a program of a host printed, once it has ended; it is killed where it takes too long."""
    try:
        return process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for pid in (*children(process.pid), process.pid):
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"it took more than {timeout} s: {out}{err}") from None


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@contextlib.contextmanager
def hosts(folder: Path, names: Sequence[str]) -> Iterator[list[Host]]:
    """Hosts that reach one another by name and by SSH, with keys as the guide has them made.

    The first is the parent: its key is authorized on all, and it knows all their keys.

    Args:
        folder: for their files; short, and empty.
        names: of the hosts, up to 250.
    """
    addresses = [f"10.231.77.{number}" for number in range(1, len(names) + 1)]
    (folder / "tmp").mkdir()
    table = "".join(f"{address} {name}\n" for address, name in zip(addresses, names, strict=True))
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{table}", encoding="ascii")
    for name in names:
        _make_files(folder, name)
    public = {name: (folder / name / "host_key.pub").read_text("ascii") for name in names}
    parent = (folder / names[0] / ".ssh/id_ed25519.pub").read_text("ascii")
    for name in names:
        (folder / name / ".ssh/authorized_keys").write_text(parent, encoding="ascii")
    (folder / names[0] / ".ssh/known_hosts").write_text(
        "".join(
            f"{name},{address} {public[name]}"
            for name, address in zip(names, addresses, strict=True)
        ),
        encoding="ascii",
    )
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(_namespaces(["--net", "--pid"], "exec sleep infinity"))
        _ip(switch, "link add bridge type bridge", "link set bridge up")
        found = []
        for number, (name, address) in enumerate(zip(names, addresses, strict=True)):
            clock = [*_OWN_CLOCK, f"--monotonic={_APART * number}"] if _OWN_CLOCK else []
            pid = stack.enter_context(_namespaces(["--net", *_OWN, *clock], _script(folder, name)))
            _ip(
                switch,
                f"link add port{number} type veth peer name eth0 netns {pid}",
                f"link set port{number} master bridge up",
            )
            _ip(pid, "link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up")
            found.append(Host(name, address, pid, folder / name, folder / "tmp"))
        for host in found:
            _wait_for_server(host)
        yield found


_OWN = ("--mount", "--uts", "--pid", "--mount-proc")
_OWN_CLOCK = ("--time",) if Path("/proc/self/ns/time").exists() else ()
_APART = 100_000
"""Seconds between the clocks of one host and the next."""


def _make_files(folder: Path, name: str) -> None:
    """A host's home, its keys and the configuration of its server."""
    home = folder / name
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh").chmod(0o700)
    for key in (home / "host_key", home / ".ssh/id_ed25519"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key], check=True
        )
    # Where ssh looks for its keys is the home that this file has, whatever HOME says.
    lines = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
    own = [
        ":".join([*line.split(":")[:5], str(home), line.split(":")[6]])
        if line.startswith("root:")
        else line
        for line in lines
    ]
    (home / "passwd").write_text("\n".join(own) + "\n", encoding="utf-8")
    (home / "sshd_config").write_text(
        f"HostKey {home / 'host_key'}\nPubkeyAuthentication yes\nPasswordAuthentication no\n"
        f"PermitRootLogin yes\nUseDNS no\nPidFile none\nSetEnv TMPDIR={folder / 'tmp'}\n",
        encoding="utf-8",
    )


def _script(folder: Path, name: str) -> str:
    """What a host does first: files of its own, then its server."""
    home = folder / name
    return " && ".join([
        f"hostname {name}",
        f"mount --bind {home / 'passwd'} /etc/passwd",
        f"mount --bind {folder / 'hosts'} /etc/hosts",
        f"mount -t tmpfs own {folder / 'tmp'}",
        "mount -t tmpfs own /run",
        "mkdir /run/sshd",
        f"exec {_program('sshd')} -D -e -f {home / 'sshd_config'} 2> {home / 'sshd.log'}",
    ])  # fmt: skip


@contextlib.contextmanager
def _namespaces(kinds: Sequence[str], script: str) -> Iterator[int]:
    """Runs a shell script as the first process in new namespaces; gives its id."""
    holder = subprocess.Popen(
        [_program("unshare"), *kinds, "--fork", "--kill-child", "sh", "-c", script],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_end_with_parent,
    )  # fmt: skip
    try:
        end = time.monotonic() + 10
        while not children(holder.pid):
            assert holder.poll() is None and time.monotonic() < end, script
            time.sleep(0.01)
        yield children(holder.pid)[0]
    finally:
        for pid in children(holder.pid):
            # The first process takes all others of its host along.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        holder.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _ip(pid: int, *commands: str) -> None:
    for command in commands:
        enter = [_program("nsenter"), f"--target={pid}", "--net", _program("ip")]
        subprocess.run([*enter, *command.split()], check=True, capture_output=True)


def _wait_for_server(host: Host) -> None:
    end = time.monotonic() + 10
    log = host.home / "sshd.log"
    while "Server listening" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < end, log.read_text() if log.exists() else "no sshd"
        time.sleep(0.02)
