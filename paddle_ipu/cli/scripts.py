"""A user's script, run within this process, with the compilations and runs it makes taken over."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from paddle_ipu.errors import ScriptError


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Runs a script as ``__main__``; ``sys.argv`` and ``sys.path`` are put back behind it.

    Args:
        path: the script's file; its folder leads ``sys.path``, as Python puts it there.
        arguments: what ``sys.argv`` holds behind it.

    Raises:
        ScriptError: there is no such file.
    """
    if not os.path.isfile(path):
        raise ScriptError("there is no such file. Give the path of a Python script.")
    before = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before


@contextlib.contextmanager
def taking_over(
    compiling: Callable[[Callable[..., Any]], Callable[..., Any]],
    running: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Has methods of the caller's stand for ``IpuCompiledProgram.compile`` and ``Executor.run``.

    Args:
        compiling: is given the method ``compile`` and returns the one that replaces it.
        running: likewise for ``run``.
    """
    import paddle

    from paddle_ipu.compiler.compiled_program import IpuCompiledProgram

    stock_run, stock_compile = paddle.static.Executor.run, IpuCompiledProgram.compile
    IpuCompiledProgram.compile = compiling(stock_compile)  # type: ignore[method-assign]
    paddle.static.Executor.run = running(stock_run)
    try:
        yield
    finally:
        IpuCompiledProgram.compile = stock_compile  # type: ignore[method-assign]
        paddle.static.Executor.run = stock_run
