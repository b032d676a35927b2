"""Entry point of ``paddle-ipu``: finds the subcommand and runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import paddle_ipu
from paddle_ipu.cli import (
    cache,
    check,
    completion,
    doctor,
    export,
    gc_info,
    gc_monitor,
    info,
    plan,
    report,
    run,
    serve,
    verify,
    vipu_server,
)
from paddle_ipu.cli.targets import WRONG_ARGUMENTS
from paddle_ipu.cli.unknown_options import refuse_unknown_options
from paddle_ipu.errors import meant

# A subcommand is a module with NAME, SUMMARY, EXIT_CODES, add_arguments(parser) and
# run(arguments) -> exit code; `arguments.parser` is the parser of all of them.
COMMANDS = (
    info, doctor, check, report, plan, verify, serve, cache, export, run,
    vipu_server, gc_info, gc_monitor, completion,
)  # fmt: skip

EXIT_CODES = """\
exit codes:
  0  success
  1  the subcommand found a problem; its own --help says which
  2  wrong arguments
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(
        prog="paddle-ipu",
        description="Tools for PaddlePaddle's IPU backend.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=paddle_ipu.__version__)
    parser.set_defaults(parser=parser)
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.NAME,
            help=command.SUMMARY,
            description=f"{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}.",
            epilog=command.EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand.

    Args:
        arguments: the command line without the program's name; that of the process by default.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser()
    if not words:
        # As ruff does: a script that lost its subcommand has failed.
        parser.print_help(sys.stderr)
        return WRONG_ARGUMENTS
    names = [command.NAME for command in COMMANDS]
    # No option before a subcommand takes a value.
    first = next((word for word in words if not word.startswith("-")), names[0])
    if first not in names:
        parser.error(f"there is no subcommand {first!r}.{meant(first, names)}")
    if first in words:
        subparser = _subparsers(parser)[first]
        refuse_unknown_options(subparser, words[words.index(first) + 1 :])
    parsed = parser.parse_args(words)
    exit_code: int = parsed.run(parsed)
    return exit_code


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return action.choices


if __name__ == "__main__":
    sys.exit(main())
