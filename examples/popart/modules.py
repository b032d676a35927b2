"""Which module the programs import: ``paddle_ipu.popart``, or Graphcore's ``popart``."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

MODULES = ("paddle_ipu.popart", "popart")


def parser_of(module: str, description: str) -> argparse.ArgumentParser:
    """A parser with ``--module``."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--module",
        choices=MODULES,
        default=MODULES[0],
        help="what to import as popart: this project's, or Graphcore's where its SDK is installed "
        f"(default: {MODULES[0]})",
    )
    return parser


def at_least_one(text: str) -> int:
    """A number of the command line, of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text}")
    return number


def import_popart(parser: argparse.ArgumentParser, name: str) -> Any:
    """The module that ``--module`` names; exit code 2 where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        parser.error(f"--module {name}: {error}. Graphcore's comes with its SDK")
