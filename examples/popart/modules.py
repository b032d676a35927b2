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


def import_popart(name: str) -> Any:
    """The module; the process ends with exit code 2 where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SystemExit(f"--module {name}: {error}. Graphcore's comes with its SDK.") from error
