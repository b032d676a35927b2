"""Runs a user's script within this process."""

from __future__ import annotations

import contextlib
import inspect
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from paddle_ipu.errors import PaddleIpuError, ScriptError, popart_exception

if TYPE_CHECKING:
    import numpy.typing as npt
    from paddle.static import Program, Variable

    from paddle_ipu.compiler.compiled_program import IpuCompiledProgram
    from paddle_ipu.dialect.paddle_objects import Scope
    from paddle_ipu.runtime.ipu_program import IpuProgram

T = TypeVar("T")

UNREADABLE = 3
"""Exit code where a script fails, or a file cannot be read or written."""


class ScriptEnd(BaseException):
    """Ends a script; no handler for errors of its own catches it."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A script's call of ``IpuCompiledProgram.compile``.

    Attributes:
        source: the object whose method it calls.
        feeds: as the script wrote them.
        fetches: likewise.
        proceed: compiles.
    """

    source: IpuCompiledProgram
    feeds: Sequence[str | Variable]
    fetches: Sequence[str | Variable]
    proceed: Callable[[], IpuProgram]


@dataclass(frozen=True, slots=True)
class Run:
    """A script's call of ``Executor.run``.

    Attributes:
        program: the default main program where the script names none.
        feed: as the script wrote it, or a list.
        fetches: in a list.
        scope: the global one where the script names none.
        proceed: runs.
    """

    program: Program | IpuProgram
    feed: Mapping[str, npt.ArrayLike] | list[Mapping[str, npt.ArrayLike]] | None
    fetches: Sequence[str | Variable]
    scope: Scope
    proceed: Callable[[], Any]


class ScriptHooks:
    """What a script's compilations and runs do; here what they do without a hook."""

    def compile(self, compilation: Compilation) -> IpuProgram:
        """Compiles a program."""
        return compilation.proceed()

    def run(self, run: Run) -> Any:
        """Runs a program; returns its results."""
        return run.proceed()


def attempt(act: Callable[[], T], target: str, when: str, *, locate: bool = True) -> T | int:
    """Calls a function that reads or runs a target.

    What the script or Paddle prints meanwhile goes to the standard error.

    Args:
        act: the function.
        target: what messages name.
        when: says in a message at which point a script failed.
        locate: name the script's line in that message.

    Returns:
        What the function returned, or `UNREADABLE` after a message.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return act()
    except PaddleIpuError as error:
        print(f"{target}: {error}", file=sys.stderr)
    except popart_exception as error:
        # PopART's own messages name no line.
        place = _line_of(error, target) if locate else ""
        print(f"{target}{place}: {error}", file=sys.stderr)
    except (Exception, SystemExit) as error:
        place = _line_of(error, target) if locate else ""
        print(f"{target} failed{place} {when}: {type(error).__name__}: {error}", file=sys.stderr)
    return UNREADABLE


def _line_of(error: BaseException, script: str) -> str:
    """`` at file:line`` of the script's own call that failed, "" where that is not known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    own = os.path.dirname(os.path.abspath(script)) + os.sep
    lines = [
        f" at {frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.abspath(frame.filename).startswith(own) and not frame.filename.startswith("<")
    ]
    return lines[-1] if lines else ""


def run_script(path: str, arguments: Sequence[str], hooks: ScriptHooks) -> None:
    """Runs a script as ``__main__``, to its end or until a hook raises :class:`ScriptEnd`.

    Args:
        path: the script's file; its folder leads ``sys.path``, as Python puts it there.
        arguments: the rest of ``sys.argv``.
        hooks: stand for its compilations and runs.

    Raises:
        ScriptError: there is no such file.
    """
    if not os.path.isfile(path):
        raise ScriptError("there is no such file. Give the path of a Python script.")
    before = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        with _hooked(hooks), contextlib.suppress(ScriptEnd):
            runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before


@contextlib.contextmanager
def _hooked(hooks: ScriptHooks) -> Iterator[None]:
    import paddle

    from paddle_ipu.compiler.compiled_program import IpuCompiledProgram

    stock_run, stock_compile = paddle.static.Executor.run, IpuCompiledProgram.compile
    signature = inspect.signature(stock_run)

    def compile_(
        self: IpuCompiledProgram,
        feed_list: Sequence[str | Variable],
        fetch_list: Sequence[str | Variable],
    ) -> IpuProgram:
        proceed = partial(stock_compile, self, feed_list, fetch_list)
        return hooks.compile(Compilation(self, feed_list, fetch_list, proceed))

    def run(*args: Any, **keywords: Any) -> Any:
        values = signature.bind(*args, **keywords).arguments
        program, feed = values.get("program"), values.get("feed")
        fetches = values.get("fetch_list")
        if fetches is None:
            fetches = []
        return hooks.run(
            Run(
                paddle.static.default_main_program() if program is None else program,
                list(feed) if isinstance(feed, tuple) else feed,
                list(fetches) if isinstance(fetches, (list, tuple)) else [fetches],
                values.get("scope") or paddle.static.global_scope(),
                partial(stock_run, *args, **keywords),
            )
        )

    IpuCompiledProgram.compile = compile_  # type: ignore[method-assign]
    paddle.static.Executor.run = run
    try:
        yield
    finally:
        IpuCompiledProgram.compile = stock_compile  # type: ignore[method-assign]
        paddle.static.Executor.run = stock_run
