"""``paddle-ipu report --compare``: two reports that were written before."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from paddle_ipu.cli.scripts import UNREADABLE
from paddle_ipu.cli.targets import WRONG_ARGUMENTS
from paddle_ipu.cost_model.report.comparison import Comparison
from paddle_ipu.cost_model.report.differences import differences
from paddle_ipu.cost_model.report.directory import write_form
from paddle_ipu.cost_model.report.figures import read_figures
from paddle_ipu.errors import ReportError

_OF_A_PROGRAM = (
    "target", "machine", "machines", "skip_startup", "fp16", "rows", "measure", "trace",
    "directory",
)  # fmt: skip


def print_comparison(arguments: argparse.Namespace) -> int:
    """Prints the comparison, or writes the forms that were asked for; returns the exit code."""
    unfit = [name for name in _OF_A_PROGRAM if getattr(arguments, name)]
    if unfit:
        first = unfit[0]
        shown = arguments.target if first == "target" else f"--{first.replace('_', '-')}"
        print(
            f"--compare reads reports that were written before, and has no use for {shown}: write "
            "the program's report with --json FILE first",
            file=sys.stderr,
        )
        return WRONG_ARGUMENTS
    paths = [Path(path) for path in arguments.compare]
    for path in paths:
        if not path.exists():
            print(f"--compare {path}: there is no such file.", file=sys.stderr)
            return WRONG_ARGUMENTS
    try:
        comparison = Comparison(differences(*map(read_figures, paths)))
    except ReportError as error:
        print(f"--compare: {error}", file=sys.stderr)
        return UNREADABLE
    return _print_forms(comparison, arguments)


def _print_forms(comparison: Comparison, arguments: argparse.Namespace) -> int:
    printed = f"{comparison}\n"
    for name, form in (("html", comparison.to_html), ("json", comparison.to_json)):
        target = getattr(arguments, name)
        if target == "-":
            printed = form()
        elif target is not None:
            try:
                write_form(Path(target), form())
            except ReportError as error:
                print(f"--{name}: {error}", file=sys.stderr)
                return WRONG_ARGUMENTS
    print(printed, end="")
    return 0
