"""Other hosts by SSH, without a terminal: whether they let us in, and who cleans up on each."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from paddle_ipu.distributed import cleaner
from paddle_ipu.errors import LaunchError
from paddle_ipu.instances.instance import LAUNCH

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this host on every host."""

# Without questions, a host that loses its power would never be missed.
_SSH = (
    "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=60",
)  # fmt: skip
_AT_ONCE = 32
_PATIENCE = 30.0


def is_this_host(host: str) -> bool:
    """Whether a host is the one that ``poprun`` runs on."""
    if host in LOCAL or host == socket.gethostname():
        return True
    try:
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    for address in addresses:
        family = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
        with socket.socket(family) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                return False
    return True


def check_all(hosts: Sequence[str]) -> None:
    """Asks hosts for nothing, several at a time; see `check`."""
    with ThreadPoolExecutor(min(max(len(hosts), 1), _AT_ONCE)) as pool:
        for _ in pool.map(check, hosts):
            pass


def check(host: str) -> None:
    """Asks a host for nothing, as mpirun will, without a terminal.

    Raises:
        LaunchError: it does not answer, its key is unknown, or it refuses ours.
    """
    try:
        said = subprocess.run(
            [*_SSH, host, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise LaunchError(f"ssh is not installed, and host {host} is reached by it") from None
    if said.returncode == 0:
        return
    if "Host key verification failed" in said.stderr:
        advice = f"Its key belongs into ~/.ssh/known_hosts: log in once with `ssh {host}`."
    elif "Permission denied" in said.stderr:
        advice = (
            f"Add this host's public key to ~/.ssh/authorized_keys on {host}; passwords are not "
            "supported."
        )
    else:
        advice = f"Check that `ssh {host} true` works from here."
    reason = said.stderr.strip().splitlines()
    why = reason[-1] if reason else f"ssh ended with code {said.returncode}"
    raise LaunchError(f"host {host} cannot be reached: {why} {advice}")


class Cleaner:
    """The process that cleans up behind ``poprun`` on one host, even where ``poprun`` is killed.

    Args:
        host: another host; None is this one.
        ended: is given an instance of the other host, and how it ended: what its guard noted, with
            ``age``, the seconds since.
        lost: is given the host where the process, or the way to it, is gone.

    Attributes:
        host: its name.
        folder: for temporary files of the launch on another host; "" on this one.

    Raises:
        LaunchError: the other host does not have the same Python and this package.
    """

    def __init__(
        self,
        host: str | None = None,
        ended: Callable[[int, dict[str, Any]], None] = lambda number, note: None,
        lost: Callable[[str], None] = lambda host: None,
    ) -> None:
        program = [sys.executable, "-I", "-S", str(cleaner.__file__)]
        command = program if host is None else [*_SSH, host, shlex.join([*program, "folder"])]
        self._again = program if host is None else [*_SSH, host, shlex.join(program)]
        self.host = host or "localhost"
        self._lines: list[str] = []
        self._heard = threading.Condition()
        self._answers: dict[str, str] = {}
        self._closing = self._gone = False
        self._process = subprocess.Popen(
            command,
            # Of a launch inside a launch, the outer one's cleaner must not end the inner one's.
            env={name: value for name, value in os.environ.items() if name != LAUNCH},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if host is None else subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        answer = self._line()
        if not answer:
            _, said = self._process.communicate()
            why = (said or "it said nothing").strip().splitlines()[-1]
            raise LaunchError(
                f"host {host} cannot run {sys.executable} with this package: {why}. All hosts of a "
                "launch must have the same files in the same places."
            )
        self.folder = answer.rstrip("\n")
        if host is not None and not self.folder.startswith("/"):
            # It goes into paths that are removed in the end.
            self._process.communicate()
            raise LaunchError(
                f"host {host} prints {self.folder!r} where a program is run by SSH. What a login "
                "prints must not come there: see its ~/.bashrc and ~/.ssh/rc."
            )
        self._reader = threading.Thread(target=self._read, args=(ended, lost), daemon=True)
        self._reader.start()

    def _read(
        self, ended: Callable[[int, dict[str, Any]], None], lost: Callable[[str], None]
    ) -> None:
        while line := self._line():
            what, _, rest = line.rstrip("\n").partition(" ")
            if what == "ended":
                number, _, note = rest.partition(" ")
                ended(int(number), json.loads(note))
            else:
                with self._heard:
                    self._answers[what] = rest
                    self._heard.notify_all()
        if not self._closing:
            lost(self.host)
            with self._heard:
                self._gone = True
                self._heard.notify_all()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        # Where it is gone, what it was to do is done in the end.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _keep(self, line: str) -> None:
        self._lines.append(line)
        self._write(line)

    def remember(self, what: str, value: object) -> None:
        """Has it end a ``session`` or all that is ``marked``, or remove a ``folder``."""
        self._keep(f"{what} {value}")

    def remember_to_post(self, host: str, port: int, body: str) -> None:
        """Has it send a request to a V-IPU service."""
        self._keep(f"post {json.dumps([host, port, body])}")

    def _wait_for(self, what: str) -> str | None:
        """The answer of a kind; None where none comes any more, or not in time."""
        with self._heard:
            self._heard.wait_for(lambda: what in self._answers or self._gone, _PATIENCE)
            return self._answers.pop(what, None)

    def end_processes(self) -> None:
        """Ends the processes that it remembers, and waits for that."""
        self._write("now")
        self._wait_for("done")

    def free_port(self) -> int:
        """A port that is free now at all addresses of the host.

        Raises:
            LaunchError: the host has none, or does not say.
        """
        self._write("port")
        said = self._wait_for("port")
        if said is None:
            said = f"it did not answer. Check that the connection of `ssh {self.host}` lasts"
        if not said.isdecimal():
            raise LaunchError(f"host {self.host} has no port for the instances to meet at: {said}.")
        return int(said)

    def ask(self) -> None:
        """Asks how far the instances of the host are."""
        self._write("beats")

    def answer(self) -> dict[int, tuple[int, str, float]] | None:
        """What it said since it was asked, as `cleaner.beats`; None where it has not, yet."""
        with self._heard:
            said = self._answers.pop("beats", None)
        if said is None:
            return None
        return {int(number): tuple(beat) for number, beat in json.loads(said).items()}

    def __enter__(self) -> Cleaner:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._closing = True
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
            self._reader.join()
            self._process.stdout.close()
            if self._process.stderr is not None:
                self._process.stderr.close()
        if self._gone:
            lines = [*self._lines, *([f"folder {self.folder}"] if self.folder else [])]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    self._again, input="\n".join(lines) + "\n", text=True, capture_output=True,
                    check=False, start_new_session=True, timeout=_PATIENCE,
                )  # fmt: skip
