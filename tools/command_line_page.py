"""docs/command_line.md: every subcommand of ``paddle-ipu`` with its options and exit codes."""

from __future__ import annotations

import argparse
from types import ModuleType

from paddle_ipu.cli.main import COMMANDS

_INTRO = """\
# The command line

<!-- Made from paddle_ipu/cli/: python -m tools.generate_docs command_line --write -->

`paddle-ipu SUBCOMMAND --help` prints what stands here. `python -m paddle_ipu.cli.main` is the same
command where the folder of scripts is not on the path.

- Options stand before a script: what follows it is the script's, and refused where it is an option
  of the subcommand. What follows `--` is the script's in any case:
  `paddle-ipu report --html page.html train.py -- --html other.html`.
- Results go to the standard output, messages and what a script prints to the standard error.
  `--json` prints one JSON document.
- Nothing is coloured.

Exit codes mean the same everywhere; each subcommand says what 1 means for it:

| code | meaning |
| --- | --- |
| 0 | success |
| 1 | the subcommand found a problem |
| 2 | wrong arguments, or a missing file |
| 3 | a script failed, or a file, model or folder cannot be read |
| 4 | `serve`: nothing can listen at the port |

| subcommand | what it does |
| --- | --- |
"""


def command_line_page() -> str:
    """The page."""
    rows = [f"| [{c.NAME}](#{c.NAME}) | {c.SUMMARY} |" for c in COMMANDS]
    return _INTRO + "\n".join([*rows, *map(_section, COMMANDS)]) + "\n"


def _section(command: ModuleType) -> str:
    parser = argparse.ArgumentParser(add_help=False)
    command.add_arguments(parser)
    options = [action for action in parser._actions if action.option_strings]
    positionals = [action for action in parser._actions if not action.option_strings]
    usage = " ".join(
        ["paddle-ipu", command.NAME, *(["[options]"] if options else []), *map(_word, positionals)]
    )
    lines = [f"\n## {command.NAME}\n", f"`{usage}`", ""]
    if parser._actions:
        lines += ["| argument | meaning |", "| --- | --- |"]
        lines += [_row(_word(action), action) for action in positionals]
        for action in options:
            takes = "" if action.nargs == 0 else f" {_value(action)}"
            lines.append(_row(f"{', '.join(action.option_strings)}{takes}", action))
        lines.append("")
    return "\n".join([*lines, "```text", command.EXIT_CODES.rstrip("\n"), "```"])


def _word(action: argparse.Action) -> str:
    """A positional argument as a usage shows it."""
    shown = _value(action) + (" ..." if action.nargs == argparse.PARSER else "")
    return shown if action.required else f"[{shown}]"


def _value(action: argparse.Action) -> str:
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    optional = bool(action.option_strings)
    return str(action.metavar or (action.dest.upper() if optional else action.dest))


def _row(shown: str, action: argparse.Action) -> str:
    cells = (f"`{shown}`", action.help or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
