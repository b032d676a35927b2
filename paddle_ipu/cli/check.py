"""``paddle-ipu check``: what keeps a script's program or a saved model off an IPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import paddle_ipu
from paddle_ipu.cli.scripts import (
    UNREADABLE,
    Compilation,
    Run,
    ScriptEnd,
    ScriptHooks,
    attempt,
    run_script,
)
from paddle_ipu.cli.targets import add_target, is_script
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.frontend.saved_model import saved_program

if TYPE_CHECKING:
    from paddle.static import Program

    from paddle_ipu.frontend.saved_model import SavedProgram
    from paddle_ipu.runtime.ipu_program import IpuProgram
    from paddle_ipu.verification.porting import PortingReport

NAME = "check"
SUMMARY = "tell what keeps a program off an IPU, without compiling it"
EXIT_CODES = """\
A script is run until it compiles for the IPU, or first runs a program with fetches; what would
have been compiled is checked instead. A model is a file or prefix that
paddle.static.load_inference_model loads; nothing in it is run.

exit codes:
  0  nothing that was found stops a compilation
  1  something does; the report says what, and where in the script
  2  wrong arguments, or a missing file
  3  the script failed or built no program, or the model cannot be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add_target(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--half", action="store_true", help="look for numbers that half precision cannot hold"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; returns the exit code."""
    target, of_script = arguments.target, is_script(arguments.target)
    if not of_script and arguments.arguments:
        print(f"a model takes no arguments, got {arguments.arguments}", file=sys.stderr)
        return 2
    report = attempt(
        lambda: (
            check_script(target, arguments.arguments, arguments.half)
            if of_script
            else check_model(target, arguments.half)
        ),
        target,
        "before it had a program to check",
    )
    if isinstance(report, int):
        return report
    if report is None:
        print(
            f"{target} built no static program: it neither compiled one with "
            "IpuCompiledProgram nor ran one with fetches, and the default main program is empty. A "
            "dynamic-graph model is checked once paddle.jit.save or save_inference_model saved it.",
            file=sys.stderr,
        )
        return UNREADABLE
    print(report.to_json() if arguments.json else report)
    return 0 if report.compiles else 1


def _check_program(program: Program | SavedProgram | IpuProgram, **options: Any) -> PortingReport:
    from paddle_ipu.verification.porting import check_program

    return check_program(program, **options)


def check_model(target: str, half: bool) -> PortingReport:
    """The report about a saved model.

    Args:
        target: a prefix, one of its files, or a folder.
        half: look for numbers that half precision cannot hold.

    Raises:
        ModelFileError: it is missing or damaged.
    """
    paddle_ipu.activate()
    program = saved_program(target)
    return _check_program(
        program,
        name=target,
        feeds=list(program.feed_names),
        fetches=[str(target.name) for target in program.fetch_targets],
        half=half,
    )


def check_script(path: str, arguments: Sequence[str], half: bool) -> PortingReport | None:
    """The report about the first program that a script compiles or runs; None without one.

    Args:
        path: the script.
        arguments: of the script.
        half: look for numbers that half precision cannot hold.

    Raises:
        ScriptError: there is no such file.
    """
    import paddle

    paddle_ipu.activate()
    hooks = _FirstProgram(half)
    run_script(path, arguments, hooks)
    main = paddle.static.default_main_program()
    if hooks.report is not None or not main.global_block().ops:
        return hooks.report
    return _check_program(main, name="the default main program", half=half)


class _FirstProgram(ScriptHooks):
    """Checks the first program that is compiled, or run with fetches, and ends the script.

    Attributes:
        report: on that program; None while there was none.
    """

    def __init__(self, half: bool) -> None:
        self._half = half
        self.report: PortingReport | None = None

    def compile(self, compilation: Compilation) -> NoReturn:
        source = compilation.source
        self._check(
            source._program,
            name="the program given to IpuCompiledProgram",
            feeds=[x if isinstance(x, str) else name_of(x) for x in compilation.feeds],
            fetches=[x if isinstance(x, str) else name_of(x) for x in compilation.fetches],
            ipu_strategy=source._ipu_strategy,
        )

    def run(self, run: Run) -> Any:
        if not run.fetches:
            return run.proceed()
        self._check(run.program, name="the first program run with fetches")

    def _check(self, program: Program | IpuProgram, **options: Any) -> NoReturn:
        self.report = _check_program(program, half=self._half, **options)
        raise ScriptEnd
