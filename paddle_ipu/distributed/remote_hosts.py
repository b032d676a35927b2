"""Other hosts by SSH, without a terminal: the check of access, and the cleaner on each."""

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
    """Checks several hosts at a time; see `check`."""
    with ThreadPoolExecutor(min(max(len(hosts), 1), _AT_ONCE)) as pool:
        for _ in pool.map(check, hosts):
            pass


def check(host: str) -> None:
    """Runs ``true`` on a host by SSH without a terminal, as mpirun runs its daemon.

    Raises:
        LaunchError: it does not answer, its key is unknown, or it refuses ours.
    """
    try:
        result = subprocess.run(
            [*_SSH, host, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise LaunchError(f"ssh is not installed, and host {host} is reached by it") from None
    if result.returncode == 0:
        return
    if "Host key verification failed" in result.stderr:
        advice = f"Its key belongs into ~/.ssh/known_hosts: log in once with `ssh {host}`."
    elif "Permission denied" in result.stderr:
        advice = (
            f"Add this host's public key to ~/.ssh/authorized_keys on {host}; passwords are not "
            "supported."
        )
    else:
        advice = f"Check that `ssh {host} true` works from here."
    reason = result.stderr.strip().splitlines()
    why = reason[-1] if reason else f"ssh ended with code {result.returncode}"
    raise LaunchError(f"host {host} cannot be reached: {why} {advice}")


class Cleaner:
    """The process that cleans up after ``poprun`` on one host, even when ``poprun`` is killed.

    Args:
        host: another host; None is this one.
        ended: called with an instance of the other host and the note of its guard, with ``age``,
            the seconds since.
        lost: called with the host when the process, or the connection to it, is gone.

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
        self._repeat_command = program if host is None else [*_SSH, host, shlex.join(program)]
        self.host = host or "localhost"
        self._lines: list[str] = []
        self._answered = threading.Condition()
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
            _, errors = self._process.communicate()
            why = (errors or "it said nothing").strip().splitlines()[-1]
            raise LaunchError(
                f"host {host} cannot run {sys.executable} with this package: {why}. All hosts of a "
                "launch must have the same files in the same places."
            )
        self.folder = answer.rstrip("\n")
        if host is not None and not self.folder.startswith("/"):
            # It becomes part of paths that are removed at the end.
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
                with self._answered:
                    self._answers[what] = rest
                    self._answered.notify_all()
        if not self._closing:
            lost(self.host)
            with self._answered:
                self._gone = True
                self._answered.notify_all()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        # If it is gone, :meth:`__exit__` runs the lines again.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _record(self, line: str) -> None:
        self._lines.append(line)
        self._write(line)

    def remember(self, what: str, value: object) -> None:
        """Adds a task for the end: end a ``session`` or what is ``marked``, remove a ``folder``."""
        self._record(f"{what} {value}")

    def remember_to_post(self, host: str, port: int, body: str) -> None:
        """Adds a request that it sends to a V-IPU service at the end."""
        self._record(f"post {json.dumps([host, port, body])}")

    def _wait_for(self, what: str) -> str | None:
        """The answer of a kind; None if the process is gone or the time is over."""
        with self._answered:
            self._answered.wait_for(lambda: what in self._answers or self._gone, _PATIENCE)
            return self._answers.pop(what, None)

    def end_processes(self) -> None:
        """Ends the recorded processes, and waits for that."""
        self._write("now")
        self._wait_for("done")

    def free_port(self) -> int:
        """A port that is free now at all addresses of the host.

        Raises:
            LaunchError: the host has none, or does not say.
        """
        self._write("port")
        answer = self._wait_for("port")
        if answer is None:
            answer = f"it did not answer. Check that the connection of `ssh {self.host}` lasts"
        if not answer.isdecimal():
            raise LaunchError(
                f"host {self.host} has no port for the instances to meet at: {answer}."
            )
        return int(answer)

    def ask(self) -> None:
        """Asks how far the instances of the host are."""
        self._write("beats")

    def answer(self) -> dict[int, tuple[int, str, float]] | None:
        """Its answer to :meth:`ask`, as of `cleaner.beats`; None as long as there is none."""
        with self._answered:
            answer = self._answers.pop("beats", None)
        if answer is None:
            return None
        return {int(number): tuple(beat) for number, beat in json.loads(answer).items()}

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
                    self._repeat_command, input="\n".join(lines) + "\n", text=True,
                    capture_output=True, check=False, start_new_session=True, timeout=_PATIENCE,
                )  # fmt: skip
