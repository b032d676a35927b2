"""The command lines of the examples: parser, checks, and errors as exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from examples.display import say

NO_BACKEND = "This Paddle has no IPU backend: install paddle_ipu beside it"


class DivergedError(ArithmeticError):
    """The loss stopped being a number."""


def parser_of(
    module: str, description: str, epilog: str, output: str = ""
) -> argparse.ArgumentParser:
    """A parser with ``--output``; where ``output`` is empty, the user must name a folder."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=not output,
        default=Path(output) if output else None,
        help="folder to write into" + (f" (default: {output})" if output else ""),
    )
    return parser


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``: the IPU, or Paddle's CPU executor."""
    parser.add_argument(
        "--device", choices=("ipu", "cpu"), default="ipu", help="where to run (default: ipu)"
    )


def check_least(options: argparse.Namespace, least: Mapping[str, int]) -> None:
    """Check that options are not below their least values; an option of None is not given.

    Raises:
        ValueError: names the option, what was expected and what was given.
    """
    for name, lowest in least.items():
        value = getattr(options, name)
        if value is not None and value < lowest:
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag}: expected {lowest} or more, got {value}")


def check_positive(options: argparse.Namespace, *names: str) -> None:
    """Check that options are above 0; an option of None is not given.

    Raises:
        ValueError: names the option, what was expected and what was given.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise ValueError(f"--{name.replace('_', '-')}: expected more than 0, got {value}")


def run(
    device: str | None, work: Callable[[Console], int], interrupted: str = "interrupted"
) -> int:
    """Do an example's work in static mode; its exit code.

    Args:
        device: ``"ipu"``, ``"cpu"``, or None for an example that runs on the IPU only.
        work: prints to the console and returns the exit code.
        interrupted: what to print after Ctrl-C.

    Returns:
        What ``work`` returns; 1 if training diverged, 2 for wrong arguments or missing files, 130
        if interrupted.
    """
    import paddle  # not needed by the processes of examples.bert.prepare, which import this module

    console = Console()
    if device != "cpu" and not paddle.is_compiled_with_ipu():
        say(console, NO_BACKEND + (", or use --device cpu." if device else "."))
        return 2
    paddle.enable_static()
    try:
        return work(console)
    except (ValueError, FileNotFoundError, FileExistsError) as error:
        say(console, str(error))
        return 2
    except DivergedError as error:
        say(console, str(error))
        return 1
    except KeyboardInterrupt:
        say(console, interrupted)
        return 130
