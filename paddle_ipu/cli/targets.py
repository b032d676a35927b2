"""What a subcommand is about: a script with its arguments, or the files of a saved model.

A file that is missing ends the command while its arguments are read, before Paddle is imported.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from paddle_ipu.errors import PaddleIpuError
from paddle_ipu.frontend import saved_model

WRONG_ARGUMENTS = 2
"""Exit code where arguments are wrong, or a file that they name is missing."""


def add_target(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Adds a script with its arguments, or a model: `target` and `arguments`.

    Args:
        parser: of the subcommand.
        optional: whether the target may be left out.
    """
    action = parser.add_argument(
        "target",
        metavar="SCRIPT|MODEL",
        # Unlike two arguments, one keeps the `--` between a script and its own arguments.
        nargs=argparse.PARSER,
        action=_ScriptArguments,
        help="a .py file and the script's arguments, or a saved model; options stand before it, "
        "and what follows a -- is the script's",
    )
    action.required = not optional
    parser.set_defaults(arguments=[])


class _ScriptArguments(argparse.Action):
    """Takes the target, and what follows it as arguments of the script.

    An option of the subcommand is no argument of a script unless a ``--`` stands before it. Behind
    a model, which has no arguments, it is what it is before one.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        words = list(values or ())
        if words[0] == "--":
            # Python 3.11 leaves it there.
            del words[0]
        target, *rest = words
        namespace.target, namespace.arguments = target, rest
        own = _OwnOptions(parser)
        if is_script(target):
            _require_file(parser, target)
            divided = rest.index("--") if "--" in rest else len(rest)
            before, behind = rest[:divided], rest[divided + 1 :]
            if any(map(own.holds, before)):
                _refuse_order(own, namespace, before, behind)
            namespace.arguments = [*before, *behind]
        elif rest and own.holds(rest[0]):
            parser.parse_args([*rest, target], namespace)
            if namespace.arguments:
                namespace.target, namespace.arguments = target, rest
        elif not rest:
            _require_model(parser, target)


class _OwnOptions:
    """The options of a subcommand.

    Args:
        parser: of the subcommand.

    Attributes:
        parser: the same.
    """

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser
        self._actions = {
            option: action for action in parser._actions for option in action.option_strings
        }

    def holds(self, word: str) -> bool:
        """Whether a word is one of them, with or without ``=value``."""
        return word.partition("=")[0] in self._actions

    def divide(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """(the options with their values, the other words)."""
        options: list[str] = []
        others: list[str] = []
        rest = iter(words)
        for word in rest:
            if not self.holds(word):
                others.append(word)
                continue
            options.append(word)
            if "=" not in word:
                # Without a number of values it takes one.
                nargs = self._actions[word].nargs
                options += itertools.islice(rest, nargs if isinstance(nargs, int) else 1)
        return options, others

    def given(self, namespace: argparse.Namespace) -> list[str]:
        """Those that differ from their defaults, with their values."""
        words: list[str] = []
        for action in dict.fromkeys(self._actions.values()):
            value = getattr(namespace, action.dest, action.default)
            if value != action.default:
                words.append(action.option_strings[-1])
                values = value if isinstance(value, list) else [value]
                words += [] if action.nargs == 0 else map(str, values)
        return words


def _refuse_order(
    own: _OwnOptions, namespace: argparse.Namespace, before: Sequence[str], behind: Sequence[str]
) -> NoReturn:
    """Ends the command with the two orders that may be meant.

    Args:
        own: the options of the subcommand.
        namespace: with what stands before the script.
        before: the words between the script and a ``--``.
        behind: those behind it.
    """
    given, (options, others) = own.given(namespace), own.divide(before)
    script = namespace.target
    ours = [*given, *options, script, *others, *(["--", *behind] if behind else [])]
    scripts = [*given, script, "--", *before, *behind]
    prog = own.parser.prog
    own.parser.exit(
        WRONG_ARGUMENTS,
        f"{prog}: error: {options[0].partition('=')[0]} stands behind {script}. As an option of "
        f"this command it stands before the script:\n  {prog} {shlex.join(ours)}\nAs an argument "
        f"of the script it stands behind a --:\n  {prog} {shlex.join(scripts)}\n",
    )


class ExistingFile(argparse.Action):
    """Takes the path of a file; ends the command where there is none."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        _require_file(parser, str(values), option_string)
        setattr(namespace, self.dest, values)


class ExistingModel(argparse.Action):
    """Takes a saved model as `saved_program` does; ends the command where a file is missing."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        _require_model(parser, str(values))
        setattr(namespace, self.dest, values)


def _require_file(parser: argparse.ArgumentParser, path: str, option: str | None = None) -> None:
    if not os.path.exists(path):
        given = f"{option} {path}" if option else path
        _refuse(parser, f"{given}: there is no such file.")
    if os.path.isdir(path):
        _refuse(parser, f"{path} is a folder, expected a file.")


def _require_model(parser: argparse.ArgumentParser, target: str) -> None:
    try:
        files = saved_model.locate(saved_model.prefix_of(target))
        if isinstance(files.parameters, Path) and not files.parameters.exists():
            # A program without parameters has no such file, which only reading it tells.
            saved_model.read(files)
    except PaddleIpuError as error:
        _refuse(parser, f"{target}: {error}")


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Ends the command without its usage, which is no help where a file is missing."""
    parser.exit(WRONG_ARGUMENTS, f"{parser.prog}: error: {message}\n")


def is_script(target: str) -> bool:
    """Whether a target is a script; else it is a model."""
    return target.endswith(".py")
