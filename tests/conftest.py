"""Fixtures for all tests: static programs, and snippets in a Python process of their own."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.checkout import ROOT
from tests.tiers import TIERS

if TYPE_CHECKING:
    from tests.popart_stand_in import StandIn

# A shell has what it starts in the background ignore interrupts, and so would the tests' programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests compile what they mean to test, and leave the user's own folder of compiled programs alone.
os.environ["IPU_CACHE_PATH"] = ""
# Sources with a half for PopART, which some load, would number the layers of all that follow anew.
os.environ["PADDLE_IPU_LAYER_NUMBERS"] = "3"

# A first example compiles, and how long that takes says nothing about the others.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by the tables of ``tests/tiers.py``."""
    for item in items:
        place = item.path.relative_to(ROOT).as_posix()
        for tier in TIERS:
            if tier.has(place):
                item.add_marker(tier.name)


_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keeps standard error as it is before pytest captures it."""
    config.stash[_STDERR] = os.dup(2)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Has a crash say where it was: Paddle's handlers write into what pytest captures."""
    if "paddle" in sys.modules:
        import paddle

        paddle.disable_signal_handler()
        _make_zeros()
        # One that is enabled does not take the signals again.
        faulthandler.disable()
        faulthandler.enable(session.config.stash[_STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Has Python's collector leave alone what is there after a file's tests.

    JAX's caches are millions of objects after thousands of tests, and each collection of garbage
    would look through all of them: it took seconds, in the middle of a test or of pytest's end.
    """
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


_SCOPES: deque[Any] = deque()
"""Those of ``paddle.static.Scope()`` that may still be in use."""


@pytest.fixture(autouse=True)
def _scopes_go() -> Iterator[None]:
    """Has a test's Scopes go after it; Paddle keeps them, and their tensors, in a pool."""
    if "paddle" not in sys.modules:
        yield
        return
    import paddle

    stock = paddle.static.Scope

    def make() -> object:
        _SCOPES.append(stock())
        return _SCOPES[-1]

    paddle.static.Scope = make
    try:
        yield
    finally:
        paddle.static.Scope = stock
    for _ in range(len(_SCOPES)):
        scope = _SCOPES.popleft()
        # The variable's reference, and that of the call.
        if sys.getrefcount(scope) > 2:
            _SCOPES.append(scope)
        else:
            scope._remove_from_pool()


@pytest.fixture
def graphcores(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A stand-in that is imported as Graphcore's ``popart``, and asked for."""
    from tests.popart_stand_in import make_popart

    made = make_popart()
    monkeypatch.setitem(sys.modules, "popart", made)
    monkeypatch.setenv("PADDLE_IPU_DEVICE", "sdk")
    monkeypatch.delenv("POPLAR_IPUMODEL", raising=False)
    return made


def _make_zeros() -> None:
    """Has Paddle's attributes of 0 be 0.0 in every order of tests.

    Paddle 3 keeps one attribute for 0.0 and -0.0, which is the first that a process makes.
    """
    import paddle
    from paddle.nn import functional

    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.full([1], 0.0)
        paddle.scale(x, bias=0.0)
        functional.leaky_relu(x, 0.0)
        functional.softplus(x, 0.0)
    paddle.disable_static()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Has what is costly made once for all processes that share the tests.

    It is called with a name and with what fills a folder; it returns the folder of that name.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def once(name: str, fill: Callable[[Path], object]) -> Path:
        folder, done = root / name, root / f"{name}.done"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                folder.mkdir(exist_ok=True)
                fill(folder)
                done.touch()
        return folder

    return once


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a snippet in a new Python process that finds this checkout, and checks its exit code.

    The process has no ``.pth`` file of its own making: activation at start-up is what the snippet
    asks for. Keyword arguments are set in the environment; `exit_code` is the expected one,
    `flags` go to Python.
    """

    def run(
        snippet: str, exit_code: int = 0, flags: Sequence[str] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-P", *flags, "-c", snippet],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PADDLE_IPU_AUTOLOAD": "0",
                **environment,
            },
        )
        assert done.returncode == exit_code, done.stderr
        return done

    return run


@pytest.fixture(autouse=True)
def dynamic_mode_afterwards() -> Iterator[None]:
    """Leaves Paddle in its default mode on the CPU, whatever a test or its fixtures turned on."""
    yield
    if "paddle_ipu.dygraph.registration" in sys.modules:
        from paddle_ipu.dygraph import registration

        # A strategy made in dynamic mode has all layers run on the IPU from then on.
        if registration.current() is not None:
            registration.current().release_patch()
    if "paddle" in sys.modules:
        import paddle

        # First the device: the next `enable_static` brings back what dynamic mode began with.
        if paddle.get_device() != "cpu":
            paddle.set_device("cpu")
        paddle.disable_static()


@pytest.fixture(autouse=True)
def names_count_anew() -> Iterator[None]:
    """Has Paddle's names count from zero in each test.

    What a test compiles depends on its names' order, and so would on the tests before it: XLA's
    cache would not find it again.
    """
    if "paddle" not in sys.modules:
        yield
        return
    import paddle

    with paddle.utils.unique_name.guard():
        yield


@pytest.fixture
def static_mode() -> None:
    """Static mode with the plugin active."""
    import paddle

    import paddle_ipu

    paddle_ipu.activate()
    paddle.enable_static()


@pytest.fixture
def static_program(static_mode: None) -> Iterator[Any]:
    """A new PIR program under construction, in static mode, with the plugin active."""
    import paddle

    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        yield program
