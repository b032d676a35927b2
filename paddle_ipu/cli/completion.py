"""``paddle-ipu completion``: what has a shell complete subcommands, options and files."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator

from paddle_ipu.cli.scripts import UNREADABLE

NAME = "completion"
SUMMARY = "print a script that makes a shell complete subcommands, options and files"
EXIT_CODES = """\
It needs shtab: pip install 'paddle_ipu[completion]'.

  paddle-ipu completion bash > ~/.local/share/bash-completion/completions/paddle-ipu
  paddle-ipu completion zsh > ~/.zfunc/_paddle-ipu      a folder of fpath, before compinit
  paddle-ipu completion tcsh > ~/.paddle-ipu.tcsh       source it in ~/.tcshrc

exit codes:
  0  printed
  2  wrong arguments
  3  shtab is not installed
"""

_FILE = re.compile(r"FILE|SCRIPT|MODEL|\.npz$")
"""Metavars of arguments that are files."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def run(arguments: argparse.Namespace) -> int:
    """Prints the completion of the parser in `arguments`; returns the exit code."""
    try:
        import shtab
    except ImportError:
        print(
            "paddle-ipu completion needs shtab: pip install 'paddle_ipu[completion]' brings it.",
            file=sys.stderr,
        )
        return UNREADABLE
    for action in _actions(arguments.parser):
        if action.metavar == "FOLDER":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif _FILE.search(str(action.metavar)):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(arguments.parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action
