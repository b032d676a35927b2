"""``paddle-ipu check``: what keeps a script's program or a saved model off an IPU."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import paddle_ipu
from paddle_ipu.cli.scripts import run_script, taking_over
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.errors import PaddleIpuError

NAME = "check"
SUMMARY = "tell what keeps a program off an IPU, without compiling it"
EXIT_CODES = """\
A script is run until it compiles for the IPU, or first runs a program with fetches; what would
have been compiled is checked instead. A model is a file or prefix that
paddle.static.load_inference_model loads; nothing in it is run.

exit codes:
  0  nothing that was found stops a compilation
  1  something does; the report says what, and where in the script
  2  wrong arguments
  3  the script failed or built no program, or the model cannot be read
"""
_UNREADABLE = 3


class _Found(BaseException):
    """Ends a script where its program is known; no handler for errors of its own catches it."""

    def __init__(self, report: Any) -> None:
        super().__init__()
        self.report = report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    parser.add_argument("target", metavar="SCRIPT|MODEL", help="a .py file, or a saved model")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="what the script is given as its arguments"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--half", action="store_true", help="look for numbers that half precision cannot hold"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; returns the exit code."""
    is_script = arguments.target.endswith(".py")
    if not is_script:
        _take_options(arguments)
    check: Callable[[], Any | None] = (
        (lambda: check_script(arguments.target, arguments.arguments, arguments.half))
        if is_script
        else (lambda: check_model(arguments.target, arguments.half))
    )
    if arguments.arguments and not is_script:
        print(f"a model takes no arguments, got {arguments.arguments}", file=sys.stderr)
        return 2
    try:
        # What a script or Paddle prints does not belong to the report.
        with contextlib.redirect_stdout(sys.stderr):
            report = check()
    except PaddleIpuError as error:
        print(f"{arguments.target}: {error}", file=sys.stderr)
        return _UNREADABLE
    except (Exception, SystemExit) as error:
        place = line_of(error, arguments.target)
        print(
            f"{arguments.target} failed{place} before it had a program to check: "
            f"{type(error).__name__}: {error}",
            file=sys.stderr,
        )
        return _UNREADABLE
    if report is None:
        print(
            f"{arguments.target} built no static program: it neither compiled one with "
            "IpuCompiledProgram nor ran one with fetches, and the default main program is empty. A "
            "dynamic-graph model is checked once paddle.jit.save or save_inference_model saved it.",
            file=sys.stderr,
        )
        return _UNREADABLE
    print(report.to_json() if arguments.json else report)
    return 0 if report.compiles else 1


def _take_options(arguments: argparse.Namespace) -> None:
    """A model has no arguments of its own, so that its options may stand behind it."""
    for option in ("json", "half"):
        if f"--{option}" in arguments.arguments:
            arguments.arguments.remove(f"--{option}")
            setattr(arguments, option, True)


def line_of(error: BaseException, script: str) -> str:
    """`` at file:line`` of a script's own call that failed, "" where that is not known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    own = os.path.dirname(os.path.abspath(script)) + os.sep
    lines = [
        f" at {frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.abspath(frame.filename).startswith(own) and not frame.filename.startswith("<")
    ]
    return lines[-1] if lines else ""


def _check_program(program: Any, **keywords: Any) -> Any:
    from paddle_ipu.verification.porting import check_program

    return check_program(program, **keywords)


def check_model(target: str, half: bool) -> Any:
    """The report about a saved model: a prefix, one of its files, or a folder.

    Raises:
        ModelFileError: it is missing or damaged.
    """
    from paddle_ipu.frontend import saved_model

    paddle_ipu.activate()
    path = Path(target)
    prefix = path.with_suffix("") if path.suffix in (".pdmodel", ".json") else path
    program = saved_model.read(saved_model.locate(prefix)).program()
    return _check_program(
        program,
        name=target,
        feeds=list(program.feed_names),
        fetches=[str(target.name) for target in program.fetch_targets],
        half=half,
    )


def check_script(path: str, arguments: Sequence[str], half: bool) -> Any | None:
    """The report about the first program that a script compiles or runs; None without one."""
    import paddle

    paddle_ipu.activate()
    try:
        with _stopping_at_programs(half):
            run_script(path, arguments)
    except _Found as found:
        return found.report
    main = paddle.static.default_main_program()
    if not main.global_block().ops:
        return None
    return _check_program(main, name="the default main program", half=half)


def _stopping_at_programs(half: bool) -> contextlib.AbstractContextManager[None]:
    """Has the first program that is compiled, or run with fetches, checked instead."""
    import paddle

    def compiling(_stock: Callable[..., Any]) -> Callable[..., Any]:
        def compile_(self: Any, feed_list: Sequence[Any], fetch_list: Sequence[Any]) -> Any:
            raise _Found(
                _check_program(
                    self._program,
                    name="the program given to IpuCompiledProgram",
                    feeds=[x if isinstance(x, str) else name_of(x) for x in feed_list],
                    fetches=[x if isinstance(x, str) else name_of(x) for x in fetch_list],
                    ipu_strategy=self._ipu_strategy,
                    half=half,
                )
            )

        return compile_

    def running(stock: Callable[..., Any]) -> Callable[..., Any]:
        def run_(self: Any, program: Any = None, feed: Any = None, fetch_list: Any = None,
                 *args: Any, **keywords: Any) -> Any:  # fmt: skip
            if not fetch_list:
                return stock(self, program, feed, fetch_list, *args, **keywords)
            main = paddle.static.default_main_program() if program is None else program
            raise _Found(_check_program(main, name="the first program run with fetches", half=half))

        return run_

    return taking_over(compiling, running)
