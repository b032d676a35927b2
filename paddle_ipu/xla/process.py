"""What running programs changes of the whole process: all of it is here.

Importing changes nothing: a session does, when it first needs JAX, when it compiles, or around a
step. Each row of ``CHANGES`` in ``options/process_changes.py`` says what and why; the collection of
garbage is put off there, and ``operating_system/`` has what stands in for calls that a system does
not have. The commands, such as ``poprun`` and ``paddle-ipu serve``, own their processes, and set
handlers of their own; an instance among others ends by ``instances/failed_exit.py``; what is put
into Paddle is ``activation/``.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import cache, partial
from types import FrameType
from typing import Any, TypeVar

import jax
from jax.experimental.compilation_cache import compilation_cache

from paddle_ipu.errors import BackendUnavailableError, PaddleIpuError, popart_exception
from paddle_ipu.operating_system import process_memory, processes
from paddle_ipu.options.process_changes import is_left_alone


@cache
def prepare() -> None:
    """Before JAX is asked for anything: its threads and its logs; a second call does nothing."""
    if not is_left_alone("threads"):
        # Takes effect where JAX has not made its CPU client yet.
        _configure("jax_cpu_enable_async_dispatch", False)
    if not is_left_alone("memory"):
        process_memory.limit_heaps(_HEAPS)
    if not is_left_alone("logs"):
        for name in ("jax._src.xla_bridge", "jax._src.compilation_cache"):
            logging.getLogger(name).setLevel(logging.WARNING)
        for name in ("jax._src.callback", "jax._src.debugging"):
            logging.getLogger(name).addFilter(_is_news)
    if not is_left_alone("interrupts"):
        sys.unraisablehook = partial(_raised_again, sys.unraisablehook)


def _configure(name: str, value: object) -> None:
    jax.config.update(name, value)  # type: ignore[no-untyped-call]


def _is_news(record: logging.LogRecord) -> bool:
    """False for what a call of the host raised on purpose: the run raises it too."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (PaddleIpuError, popart_exception))


# -- memory -------------------------------------------------------------------------------------

_HEAPS = 2


@cache
def keep_freed_memory() -> bool:
    """Makes glibc keep what is freed, once a process; True where that took effect."""
    if is_left_alone("memory") or jax.default_backend() != "cpu":
        return False
    return process_memory.keep_freed()


# -- signals ------------------------------------------------------------------------------------

_T = TypeVar("_T")
_LATER_SECONDS, _POLL_SECONDS = 0.02, 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DeferredSignals:
    """Within the block Python's handlers of SIGINT and SIGTERM wait for its end.

    A step takes the weights' memory over. An exception of a handler, such as KeyboardInterrupt,
    between its end and the moment its results are kept would lose all of them. Nothing ends later
    for it: no handler is called before a step returns.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._arrived: list[tuple[int, FrameType | None]] = []
        self._waiting = False

    def __enter__(self) -> None:
        # Handlers are called in the main thread alone.
        if threading.current_thread() is not threading.main_thread() or is_left_alone("signals"):
            return
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._defer)
        self._waiting = True

    def __exit__(self, *error: object) -> None:
        self._waiting = False
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for arrived, frame in self._arrived:
            self._handlers[arrived](arrived, frame)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._waiting:
            self._arrived.append((number, frame))
        else:  # it came while the handlers were being exchanged
            self._handlers[number](number, frame)


def beside(work: Callable[[], _T]) -> _T:
    """What `work` gives, which is done in a thread of its own that no signal reaches.

    An exception of a handler, such as KeyboardInterrupt, leaves the thread to end by itself.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or is_left_alone("interrupts"):
        return work()
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="paddle_ipu compiles").start()
    # Now and then, since a signal right before a wait does not end it.
    while not wait([future], timeout=_POLL_SECONDS).done:
        pass
    return future.result()


def _raised_again(
    hook: Callable[[sys.UnraisableHookArgs], object], ignored: sys.UnraisableHookArgs
) -> None:
    """The hook for exceptions that Python cannot raise; an interrupt is sent once more."""
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        hook(ignored)
        return
    # From another thread and later: at once it would be raised in here.
    again = threading.Timer(_LATER_SECONDS, processes.interrupt)
    again.daemon = True
    again.start()


# -- forks --------------------------------------------------------------------------------------

_owner: int | None = None
_is_fork = False


def check_fork() -> None:
    """To be called before XLA is asked for work.

    Raises:
        BackendUnavailableError: XLA's threads are those of the process this one was forked from.
    """
    global _owner
    if _is_fork:
        raise BackendUnavailableError(
            f"process {os.getpid()} was forked from process {_owner}, which had compiled a program "
            "by then, and XLA's threads do not come along into a fork. Fork before anything is "
            "compiled, or start processes anew: multiprocessing.get_context('spawn')."
        )
    if _owner is None and not is_left_alone("forks"):
        _owner = os.getpid()
        processes.when_forked(_note)


def _note() -> None:
    global _is_fork
    _is_fork = True


# -- JAX's services -----------------------------------------------------------------------------

_WITHOUT_JAXS_CACHE = threading.Lock()


def end_by_sigterm() -> None:
    """Has SIGTERM end a process that joins others."""
    if not is_left_alone("preemption"):
        _configure("jax_enable_preemption_service", False)


def may_be_of_jaxs_cache() -> bool:
    """Whether JAX keeps compiled programs itself, and may have loaded one."""
    return bool(jax.config.values["jax_compilation_cache_dir"])


@contextmanager
def without_jaxs_cache() -> Iterator[None]:
    """Has XLA compile what JAX's own cache may have, one thread at a time."""
    if not may_be_of_jaxs_cache() or is_left_alone("jax_cache"):
        yield
        return
    with _WITHOUT_JAXS_CACHE:
        was_enabled = jax.config.values["jax_enable_compilation_cache"]
        _configure("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        try:
            yield
        finally:
            _configure("jax_enable_compilation_cache", was_enabled)
            compilation_cache.reset_cache()
