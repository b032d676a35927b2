"""A program for ``python other_systems.py SYSTEM``: trains a network on a system that is not here.

Python, Paddle and JAX are imported as they are; then the process loses what the system named lacks,
and only after that paddle_ipu is imported. The program compiles, runs on the IPU Model and on
Paddle's CPU kernels, and prints as JSON what came out.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import signal
import sys
import types
import warnings
import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from dataclasses import dataclass
from typing import Any

import jax.numpy  # noqa: F401 - as the system is
import numpy as np
import onnx_ir  # noqa: F401
import paddle
from jax.experimental.compilation_cache import compilation_cache  # noqa: F401

_OF_LINUX = {os: ("sched_getaffinity", "memfd_create", "RTLD_DEEPBIND"), mmap: ("MADV_HUGEPAGE",)}
_OF_UNIX = {
    os: (
        "geteuid", "getuid", "register_at_fork", "fork", "killpg", "O_DIRECTORY", "O_NOFOLLOW",
        "O_CLOEXEC", "O_NONBLOCK", "RTLD_NOW", "RTLD_GLOBAL", "sysconf", "pwrite", "uname",
    ),
    mmap: ("MAP_PRIVATE", "MAP_ANONYMOUS"),
    signal: ("SIGHUP", "SIGKILL", "SIGPIPE"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class System:
    """What a process sees of a system.

    Attributes:
        platform: as ``sys.platform`` has it.
        name: as ``platform.system()`` gives it.
        machine: as ``platform.machine()`` gives it.
        lacks: names that modules of Python do not have there.
        modules: those of Python that are not there.
        has_c_library: a process can look into itself.
    """

    platform: str
    name: str
    machine: str
    lacks: dict[types.ModuleType, tuple[str, ...]]
    modules: tuple[str, ...] = ()
    has_c_library: bool = True


SYSTEMS = {
    "macos": System("darwin", "Darwin", "arm64", _OF_LINUX, ("msvcrt",)),
    "windows": System(
        "win32", "Windows", "AMD64",
        {each: _OF_LINUX.get(each, ()) + _OF_UNIX[each] for each in _OF_UNIX},
        ("fcntl", "resource", "pwd", "grp", "termios", "pty"), has_c_library=False,
    ),
    "aarch64": System("linux", "Linux", "aarch64", {}),
    "bare": System("none", "", "", _OF_LINUX, ("fcntl", "msvcrt", "resource"), has_c_library=False),
}  # fmt: skip


class Locking(types.ModuleType):
    """Stands in for ``msvcrt``: bytes locked where the descriptor stands."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: set[tuple[int, int]] = set()
        self.count = 0

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        place = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
        assert size == 1 and place[1] < 2**31
        if mode == self.LK_UNLCK:
            self.held.remove(place)
        elif place in self.held:
            raise PermissionError(13, "Permission denied")
        else:
            self.held.add(place)
            self.count += 1


def become(system: System) -> None:
    """Takes from this process what a system lacks."""
    sys.platform = system.platform
    platform.system = lambda: system.name
    platform.machine = lambda: system.machine
    platform.processor = lambda: ""
    if system.platform != "linux":
        sys.addaudithook(_without_proc)
    for module, names in system.lacks.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    if not hasattr(os, "sched_getaffinity") and hasattr(os, "process_cpu_count"):
        # Python 3.13 for Linux asks what was just taken away.
        os.process_cpu_count = os.cpu_count
    for name in system.modules:
        sys.modules[name] = None  # type: ignore[assignment]
    if not system.has_c_library:
        original = ctypes.CDLL

        def opened(name: str | None, *others: Any, **keywords: Any) -> ctypes.CDLL:
            if name is None:
                raise TypeError("LoadLibrary() argument 1 must be str, not None")
            return original(name, *others, **keywords)

        ctypes.CDLL = opened  # type: ignore[assignment,misc]


def _without_proc(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc/"):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def losses(on_ipu: bool) -> list[float]:
    """Of three steps of a small network."""
    paddle.seed(1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [4, 8], "float32")
        layer = paddle.nn.Linear(8, 3, weight_attr=paddle.nn.initializer.Constant(0.1))
        loss = paddle.mean(paddle.square(paddle.tanh(layer(x)) - 0.25))
        paddle.optimizer.Momentum(0.1).minimize(loss)
    place: Any = paddle.IPUPlace() if on_ipu else paddle.CPUPlace()
    executor = paddle.static.Executor(place)
    executor.run(startup)
    program: Any = main
    if on_ipu:
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=True)
        compiled = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
        program = compiled.compile(["x"], [loss])
    fed = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    runs = [executor.run(program, {"x": fed}, [loss]) for _ in range(3)]
    return [float(np.asarray(fetched).reshape(())) for (fetched,) in runs]


def main(name: str) -> None:
    """Prints what came out."""
    locking = Locking()
    if name == "windows":
        sys.modules["msvcrt"] = locking
    become(SYSTEMS[name])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        import paddle_ipu

        paddle_ipu.activate()
        paddle_ipu.deactivate()
        paddle_ipu.activate()
    from paddle_ipu.cli import check, doctor, info  # noqa: F401 - they can be imported
    from paddle_ipu.distributed import poprun
    from paddle_ipu.operating_system import process_memory, processors
    from paddle_ipu.xla.kernels import library

    paddle.enable_static()
    on_ipu = losses(on_ipu=True)
    report = info.collect()
    result = {
        "told": [str(each.message) for each in told if "paddle_ipu" in str(each.message)],
        "ipu": on_ipu,
        "cpu": losses(on_ipu=False),
        "again": losses(on_ipu=True),
        "entries": len(os.listdir(os.environ["IPU_CACHE_PATH"])),
        "locks": locking.count,
        "held": len(locking.held),
        "processors": processors.usable(),
        "resident": process_memory.resident_bytes(),
        "kernels": library.why_not(),
        "platform": report["platform"],
        "device": report["compiled_programs"]["device"],
        "poprun": poprun.main(["--num-instances=1", "--num-replicas=1", "true"]),
    }
    sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
